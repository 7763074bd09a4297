"""What experiments are made with: models, stores and evaluations below one folder, each made once.

Everything here is a command that resumes: what an earlier run finished is found again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from retomaton_dist.api.build import run_build, run_cluster, run_compile
from retomaton_dist.api.evaluate import run_evaluate
from retomaton_dist.api.store import StoreReader
from retomaton_dist.api.train import run_train
from retomaton_dist.reproduction.texts import LAW, WIKI, Domain, draw_corpus
from retomaton_dist.settings import (
    ClusterSettings,
    CompileSettings,
    CorpusSettings,
    EvaluateSettings,
    ExtractSettings,
    ModelSettings,
    ReproduceSettings,
    TokenizeSettings,
    TrainSettings,
    WorkerSettings,
)
from retomaton_dist.settings.parsing import make_group, walk_settings, with_tables

Say = Callable[[str], None]
Tables = Mapping[str, Mapping[str, Any]]
# k-means of the paper has about so many entries per state, and so has `cluster` by default.
USUAL = 100


@dataclass(frozen=True)
class Bench:
    """The folder of all experiments, and the settings of their steps."""

    settings: ReproduceSettings
    tables: Tables
    workers: WorkerSettings
    say: Say

    @property
    def data(self) -> Path:
        """Where the texts lie."""
        return Path(self.settings.data)

    @property
    def out(self) -> Path:
        """Where everything is made."""
        return Path(self.settings.out)

    @cached_property
    def wiki_model(self) -> str:
        """The LM of Wikipedia: named, or trained on the corpus that its store is made of."""
        if self.settings.wiki_model is not None:
            return self.settings.wiki_model
        corpus = self._corpus(WIKI, self.settings.wiki_bytes)
        return self._trained("wiki", corpus, minutes=self.settings.wiki_minutes)

    @cached_property
    def tuned_model(self) -> str:
        """The same, fine-tuned on the law corpus."""
        minutes, init = self.settings.tuning_minutes, self.wiki_model
        corpus = self._corpus(LAW, self.settings.law_bytes)
        return self._trained("law-tuned", corpus, minutes=minutes, init=init)

    @cached_property
    def wiki_store(self) -> StoreReader:
        """Wikipedia, read by its own LM."""
        return self._built("wiki", self._corpus(WIKI, self.settings.wiki_bytes), self.wiki_model)

    @cached_property
    def law_store(self) -> StoreReader:
        """Law, read by the LM of Wikipedia."""
        return self._built("law", self._corpus(LAW, self.settings.law_bytes), self.wiki_model)

    @cached_property
    def tuned_store(self) -> StoreReader:
        """Law, read by the LM that was fine-tuned on it."""
        corpus = self._corpus(LAW, self.settings.law_bytes)
        return self._built("law-tuned", corpus, self.tuned_model)

    @cached_property
    def strong_store(self) -> StoreReader:
        """Law, read by the stronger LM."""
        assert self.settings.strong_model is not None, "asked for only if there is one"
        corpus = self._corpus(LAW, self.settings.strong_bytes)
        return self._built("law-strong", corpus, self.settings.strong_model)

    def automaton(self, store: StoreReader, clustering: str) -> str:
        """The automaton of a clustering: entries per state of k-means, `greedy` or `none`."""
        if clustering == str(USUAL):
            return "kmeans"
        if clustering.isdecimal():
            states = max(1, store.entries // int(clustering))
            chosen = {"name": f"kmeans-{clustering}", "algorithm": "kmeans", "states": states}
        else:
            chosen = {"algorithm": clustering}
        settings: ClusterSettings = self._group(ClusterSettings, "cluster", chosen)
        name = settings.clustering
        self.say(f"# {store.path}: clustering {name}")
        run_cluster(store.path, settings, self.workers)
        compiling: CompileSettings = self._group(CompileSettings, "compile", {"states": name})
        run_compile(store.path, compiling, self.workers)
        return name

    def evaluate(
        self, name: str, store: StoreReader, domain: Domain, automata: list[str], **chosen: Any
    ) -> None:
        """Evaluate the domain's test text, calibrated on its validation text."""
        settings: EvaluateSettings = self._group(
            EvaluateSettings,
            "evaluate",
            {
                "text": (str(domain.path(self.data, "test")),),
                "calibrate_on": (str(domain.path(self.data, "valid")),),
                "positions": self._positions(domain),
                "calibration_positions": self.settings.calibration_positions,
                "automata": ",".join(automata),
                "out": str(self.out / "evaluations" / name),
                **chosen,
            },
        )
        walk = walk_settings(settings.preset, self.tables.get("walk", {}))
        self.say(f"# {name}: evaluate {settings.text[0]} with {store.path}")
        run_evaluate(store.path, settings, walk, self._workers(settings))

    def _positions(self, domain: Domain) -> int:
        return self.settings.wiki_positions if domain == WIKI else self.settings.law_positions

    def _workers(self, settings: EvaluateSettings) -> WorkerSettings:
        """Who evaluates; what is timed runs alone, or it would be timed against itself."""
        timed = settings.mode == "live" and self.workers.workers != 0
        return replace(self.workers, workers=1) if timed else self.workers

    def _corpus(self, domain: Domain, most_bytes: int | None) -> CorpusSettings:
        return domain.corpus(draw_corpus(domain, self.data, most_bytes, self.out / "text"))

    def _trained(self, name: str, corpus: CorpusSettings, **chosen: Any) -> str:
        folder = self.out / "models" / name
        self.say(f"# {folder}: train a language model on {corpus.corpus[0]}")
        settings: TrainSettings = self._group(TrainSettings, "train", chosen)
        result = run_train(folder, corpus, settings, self.workers.progress)
        self.say(f"perplexity {result.perplexity:,.1f} per token on held-out text of the corpus")
        return str(folder)

    def _built(self, name: str, corpus: CorpusSettings, model: str) -> StoreReader:
        """A store with two automata: of k-means, and without clustering."""
        path = self.out / "stores" / f"{name}.store"
        self.say(f"# {path}: build it from {corpus.corpus[0]} with {model}")
        groups = (
            corpus,
            self._group(ModelSettings, "model", {"model": model}),
            self._group(TokenizeSettings, "tokenize", {}),
            self._group(ExtractSettings, "extract", {}),
            self.workers,
        )
        store = run_build(path, with_tables(groups, self.tables))
        self.automaton(store, "none")
        return store

    def _group(self, kind: Any, table: str, chosen: Mapping[str, Any]) -> Any:
        return make_group(kind, chosen, self.tables.get(table, {}))
