"""The paper's experiments: what each evaluates, and what it needs to be there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.outline import outline
from retomaton_dist.reproduction.bench import Bench
from retomaton_dist.reproduction.texts import LAW, WIKI, Domain
from retomaton_dist.settings import ModelSettings
from retomaton_dist.settings.evaluate import listed

MAIN = ["kmeans", "none"]
# Enough to compare clusterings and times; the rest is in the experiments themselves. `suffix` tells
# whether the LM's keys say more than the last few tokens.
PLAIN = "lm,knnlm,suffix,retomaton"
TIMED = "lm,knnlm,retomaton"


@dataclass(frozen=True)
class Experiment:
    """How it is run, and the texts it is about."""

    run: Callable[[Bench], None]
    domains: tuple[Domain, ...]


def in_domain(bench: Bench) -> None:
    """The datastore is made of the text that the LM was trained on."""
    bench.evaluate("in-domain", bench.wiki_store, WIKI, MAIN)


def adaptation(bench: Bench) -> None:
    """The datastore is of another domain than the LM; with a second LM if one is named."""
    bench.evaluate("adaptation", bench.law_store, LAW, MAIN)
    if bench.settings.strong_model is not None:
        bench.evaluate("adaptation-strong", bench.strong_store, LAW, MAIN)


def fine_tuned(bench: Bench) -> None:
    """The LM was fine-tuned on the datastore's domain, and the datastore made anew with it."""
    bench.evaluate("fine-tuned", bench.tuned_store, LAW, MAIN)


def ablation(bench: Bench) -> None:
    """Clusterings from coarse to fine, greedy merging, and none, on both texts.

    All of them are shown. What the other experiments use was set beforehand, as in the paper.
    """
    for name, store, domain in (
        ("ablation-wiki", bench.wiki_store, WIKI),
        ("ablation-law", bench.law_store, LAW),
    ):
        wanted = listed(bench.settings.clusterings)
        automata = list(dict.fromkeys(bench.automaton(store, one) for one in wanted))
        bench.evaluate(name, store, domain, automata, methods=PLAIN)


def wall_clock(bench: Bench) -> None:
    """Time against saved searches, measured by running each point alone."""
    bench.evaluate(
        "wall-clock",
        bench.law_store,
        LAW,
        MAIN,
        methods=TIMED,
        mode="live",
        positions=bench.settings.timing_positions,
        target_foss=bench.settings.timing_foss,
    )


EXPERIMENTS: Mapping[str, Experiment] = {
    "in-domain": Experiment(in_domain, (WIKI,)),
    "adaptation": Experiment(adaptation, (LAW,)),
    "fine-tuned": Experiment(fine_tuned, (LAW,)),
    "ablation": Experiment(ablation, (WIKI, LAW)),
    "wall-clock": Experiment(wall_clock, (LAW,)),
}


def check_inputs(bench: Bench) -> None:
    """Refuse missing texts and models that cannot be used, before anything is written."""
    for domain in _domains(bench):
        domain.check(bench.data)
    for model in _named_models(bench):
        outline(identify(ModelSettings(model=model))[0])


def _domains(bench: Bench) -> Iterable[Domain]:
    needed = [one for name in bench.settings.chosen for one in EXPERIMENTS[name].domains]
    # The LM that reads law is trained on Wikipedia.
    trained = [WIKI] if bench.settings.wiki_model is None else []
    return dict.fromkeys([*needed, *trained])


def _named_models(bench: Bench) -> list[str]:
    strong = bench.settings.strong_model if "adaptation" in bench.settings.chosen else None
    return [model for model in (bench.settings.wiki_model, strong) if model is not None]
