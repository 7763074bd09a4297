"""The settings of reproducing the paper's experiments: which of them, on what, how large."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.evaluate import listed
from retomaton_dist.settings.option import Settings, option

EXPERIMENTS = ("in-domain", "adaptation", "fine-tuned", "ablation", "wall-clock")
ALL = "all"
# Tables that the steps take their other settings from, and what of them an experiment itself sets.
STEP_TABLES: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "revision"),
    "train": ("init", "minutes"),
    "tokenize": (),
    "extract": (),
    "cluster": ("name", "algorithm", "states"),
    "index": ("name",),
    "compile": ("name", "states"),
    "suffix": ("name",),
    "evaluate": (
        "text",
        "split",
        "field",
        "calibrate_on",
        "automata",
        "mode",
        "out",
        "positions",
        "calibration_positions",
        "target_foss",
        "index",
        "suffixes",
        "model",
        "same_text",
    ),
    "walk": (),
}


@dataclass(frozen=True, kw_only=True)
class ReproduceSettings(Settings):
    """Which of the paper's experiments, and how large. Constants are never fitted on test text."""

    data: str = option(
        "folder with law/{train,valid,test}.en and wikitext-2/{train,valid,test}.txt", path="place"
    )
    out: str = option("folder of texts, models, stores, evaluations and the report", path="place")
    experiments: str = option(
        f"comma-separated: {', '.join(EXPERIMENTS)}, or {ALL} of them; those before stay in the "
        "report",
        ALL,
    )
    wiki_model: str | None = option(
        "the LM of Wikipedia: hub id, local folder or GGUF file; auto: trained on the corpus of "
        "wikitext-2",
        None,
        path="model",
    )
    wiki_minutes: float = option("minutes to train that LM for, if it is not named", 15.0, above=0)
    tuning_minutes: float = option("minutes to fine-tune it on the law corpus", 5.0, above=0)
    strong_model: str | None = option(
        "a second, stronger LM that was not trained on law, for adaptation",
        None,
        shown="none",
        path="model",
    )
    wiki_bytes: int | None = option(
        "size of the wikitext-2 corpus, of articles drawn at random; auto: all", 4_000_000, least=1
    )
    law_bytes: int | None = option(
        "size of the law corpus, of sentences drawn at random; auto: all", 4_000_000, least=1
    )
    strong_bytes: int | None = option(
        "the same of the law corpus that the stronger LM reads", 1_500_000, least=1
    )
    wiki_positions: int = option(
        "positions of wikitext-2's test text, of articles drawn at random; an article has "
        "thousands, and intervals need many articles",
        60_000,
        least=1,
    )
    law_positions: int = option("the same of law's, of sentences", 20_000, least=1)
    calibration_positions: int = option("the same of each validation text", 32_768, least=1)
    clusterings: str = option(
        "comma-separated, of the ablation: entries per state of k-means, greedy, none",
        "1000,300,100,30,10,greedy,none",
    )
    timing_positions: int = option("positions that wall-clock is measured over", 3_000, least=1)
    timing_foss: str = option(
        "comma-separated fractions of saved searches to measure wall-clock at", "0,0.3,0.5,0.7,0.85"
    )

    def check(self) -> None:
        """Refuse experiments and clusterings that there are not."""
        unknown = [name for name in listed(self.experiments) if name not in (*EXPERIMENTS, ALL)]
        if unknown or not listed(self.experiments):
            shown = unknown[0] if unknown else "(nothing)"
            raise BadInput(f"experiment {shown}: choose from {', '.join((*EXPERIMENTS, ALL))}")
        for name in listed(self.clusterings):
            if name not in ("greedy", "none") and not (name.isdecimal() and int(name) > 0):
                raise BadInput(
                    f"--clusterings {name}: name greedy, none, or a whole number of entries per "
                    f"state of k-means"
                )
        if not listed(self.clusterings):
            raise BadInput("--clusterings names none; use for example 1000,100,10,greedy,none")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The experiments asked for, in the paper's order."""
        wanted = listed(self.experiments)
        return tuple(name for name in EXPERIMENTS if ALL in wanted or name in wanted)


def check_free(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse what an experiment itself sets in the tables of its steps."""
    for table, set_here in STEP_TABLES.items():
        for name in set_here:
            if name in tables.get(table, {}):
                raise BadInput(
                    f"[{table}] {name.replace('_', '-')}: the experiments set it themselves; "
                    f"leave it out"
                )
