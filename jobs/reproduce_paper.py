"""Runs the paper's experiments (jobs/paper.toml), also as a Ray job.

    ray job submit --working-dir . -- python -m jobs.reproduce_paper --config paper.toml

Flags and exit codes are those of `retomaton reproduce`. Run again after a failure, it does only
what is missing.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import retomaton_dist as rd
from retomaton_dist.corpus.documents import read_texts
from retomaton_dist.errors import BadInput
from retomaton_dist.jobs.paper_curves import PAPER
from retomaton_dist.jobs.paper_page import EVALUATIONS, write_page
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.outline import outline
from retomaton_dist.runtime.progress import clock, say
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    GROUPS,
    CorpusSettings,
    ModelSettings,
    ReproduceSettings,
    WorkerSettings,
)
from retomaton_dist.settings.evaluate import listed
from retomaton_dist.settings.parsing import checked_table, split_keywords
from retomaton_dist.settings.reproduce import STEP_TABLES, check_free
from retomaton_dist.storage import files

Table = Mapping[str, Any]
# k-means of the paper has about so many entries per state, and so has `cluster` by default.
USUAL = "100"
SEED = 0


def reproduce(**settings: Any) -> Path:
    """Run the paper's experiments, or what is missing of them; return the page of the report.

    Keywords are the flags of `retomaton reproduce`; `data` and `out` are needed. Settings of the
    steps are tables, as in a TOML file: `walk={"k": 64}`, `train={...}`, `cluster={...}`, ...
    """
    given = {name: value for name, value in settings.items() if name not in STEP_TABLES}
    groups = (ReproduceSettings, WorkerSettings)
    chosen, workers = split_keywords(groups, given, tuple(STEP_TABLES))
    tables = {
        name: checked_table(settings[name], GROUPS[name], f"[{name}]")
        for name in STEP_TABLES
        if name in settings
    }
    check_free(tables)
    return Reproduction(chosen, tables, workers, say).run()


@dataclass(frozen=True)
class Reproduction:
    """The experiments that are asked for, and the folder that all of them share."""

    settings: ReproduceSettings
    tables: Mapping[str, Table]
    workers: WorkerSettings
    say: Callable[[str], None]
    made: dict[tuple[str, str], str] = field(default_factory=dict)

    def run(self) -> Path:
        """Run what is missing; the page is written anew after each experiment, of all there is."""
        self._check_inputs()
        start, page = time.monotonic(), Path()
        with Session(self.workers) as session:
            if not session.here:
                session.join()  # one Ray for all steps
            for name in self.settings.chosen:
                self.say(f"\n# experiment {name}")
                for entry in self._evaluations():
                    if entry["experiment"] == name:
                        self._evaluate(entry)
                page = write_page(self.out)
                self.say(f"# {name} is done, {clock(time.monotonic() - start)} so far: {page}")
        return page

    @property
    def out(self) -> Path:
        """Where everything is made."""
        return Path(self.settings.out)

    def _evaluations(self) -> Iterator[Table]:
        for entry in PAPER["evaluations"]:
            wanted = entry["experiment"] in self.settings.chosen
            model = PAPER["models"][PAPER["stores"][entry["store"]]["model"]]
            if wanted and ("text" in model or self._named(model)):
                yield entry

    def _check_inputs(self) -> None:
        """Refuse missing texts and models that cannot be used, before anything is written."""
        stores = [PAPER["stores"][entry["store"]] for entry in self._evaluations()]
        needed = [store["text"] for store in stores]
        models = [PAPER["models"][store["model"]] for store in stores]
        models += [PAPER["models"][model["init"]] for model in models if "init" in model]
        needed += [model["text"] for model in models if not self._named(model)]
        for name in dict.fromkeys(needed):
            check_text(PAPER["texts"][name], Path(self.settings.data))
        for model in dict.fromkeys(filter(None, map(self._named, models))):
            outline(identify(ModelSettings(model=model))[0])

    def _named(self, model: Table) -> str | None:
        named: str | None = getattr(self.settings, model["named"]) if "named" in model else None
        return named

    def _once(self, kind: str, name: str, make: Callable[[str, Table], str]) -> str:
        """A model or a store, made when it is first needed."""
        if (kind, name) not in self.made:
            self.made[kind, name] = make(name, PAPER[kind][name])
        return self.made[kind, name]

    def _corpus(self, entry: Table) -> dict[str, Any]:
        text, most = PAPER["texts"][entry["text"]], getattr(self.settings, entry["bytes"])
        path = draw_corpus(text, Path(self.settings.data), most, self.out / "text")
        return {"corpus": str(path), "split": text["split"]}

    def _model(self, name: str, entry: Table) -> str:
        """The model that a setting names, or one that is trained."""
        if named := self._named(entry):
            return named
        corpus, folder = self._corpus(entry), str(self.out / "models" / name)
        init = {"init": self._once("models", entry["init"], self._model)} if "init" in entry else {}
        minutes = getattr(self.settings, entry["minutes"])
        self.say(f"# {folder}: train a language model on {corpus['corpus']}")
        chosen = {**self.tables.get("train", {}), **init, "minutes": minutes}
        result = rd.train_lm(folder, **corpus, **chosen, progress=self.workers.progress)
        self.say(f"perplexity {result.perplexity:,.1f} per token on held-out text of the corpus")
        return folder

    def _store(self, name: str, entry: Table) -> str:
        """A store with two automata: of k-means, and without clustering."""
        path, corpus = str(self.out / "stores" / f"{name}.store"), self._corpus(entry)
        model = self._once("models", entry["model"], self._model)
        self.say(f"# {path}: build it from {corpus['corpus']} with {model}")
        flags = {
            key: value
            for table in ("model", "tokenize", "extract")
            for key, value in self.tables.get(table, {}).items()
        }
        later = {
            table: self.tables.get(table, {}) for table in ("cluster", "index", "compile", "suffix")
        }
        rd.build(path, **corpus, **{**flags, "model": model}, **later, **asdict(self.workers))
        self._automaton(path, "none")
        return path

    def _automaton(self, store: str, clustering: str) -> str:
        """The automaton of a clustering: entries per state of k-means, `greedy` or `none`."""
        if clustering == USUAL:
            return "kmeans"
        chosen: dict[str, Any] = {"algorithm": clustering}
        if clustering.isdecimal():
            states = max(1, rd.open(store).entries // int(clustering))
            chosen = {"name": f"kmeans-{clustering}", "algorithm": "kmeans", "states": states}
        name = chosen.get("name", clustering)
        self.say(f"# {store}: clustering {name}")
        workers = asdict(self.workers)
        rd.cluster(store, **{**self.tables.get("cluster", {}), **chosen}, **workers)
        rd.compile(store, **{**self.tables.get("compile", {}), "states": name}, **workers)
        return str(name)

    def _evaluate(self, entry: Table) -> None:
        """Evaluate the test text of the store's domain, calibrated on its validation text."""
        store = self._once("stores", entry["store"], self._store)
        text, data = PAPER["texts"][PAPER["stores"][entry["store"]]["text"]], self.settings.data
        chosen = {
            "text": str(path_of(text, Path(data), "test")),
            "calibrate_on": str(path_of(text, Path(data), "valid")),
            "positions": getattr(self.settings, text["positions"]),
            "calibration_positions": self.settings.calibration_positions,
            "automata": "kmeans,none",
            "out": str(self.out / EVALUATIONS / entry["name"]),
        }
        workers = asdict(self.workers)
        if "methods" in entry:
            chosen["methods"] = entry["methods"]
        if entry.get("kind") == "clusterings":
            wanted = [self._automaton(store, name) for name in listed(self.settings.clusterings)]
            chosen["automata"] = ",".join(dict.fromkeys(wanted))
        if entry.get("kind") == "timed":
            chosen |= {"mode": "live", "positions": self.settings.timing_positions}
            chosen["target_foss"] = self.settings.timing_foss
            # What is timed runs alone, or it would be timed against itself.
            workers["workers"] = workers["workers"] and 1
        self.say(f"# {entry['name']}: evaluate {chosen['text']} with {store}")
        tables = {**self.tables.get("evaluate", {}), **self.tables.get("walk", {})}
        rd.evaluate(store, **{**tables, **chosen}, **workers)


def path_of(text: Table, data: Path, part: str) -> Path:
    """Where a part of a text lies."""
    return Path(data, text["folder"], f"{part}{text['ending']}")


def check_text(text: Table, data: Path) -> None:
    """Refuse a data folder that lacks a part of a text."""
    for part in ("train", "valid", "test"):
        path = path_of(text, data, part)
        if not path.is_file():
            raise BadInput(
                f"{path}: no such file; --data needs {text['folder']}/{{train,valid,test}}"
                f"{text['ending']}"
            )
        if not path.stat().st_size:
            raise BadInput(f"{path} is empty; --data needs text there")


def draw_corpus(text: Table, data: Path, most_bytes: int | None, folder: Path) -> Path:
    """The training text, or documents drawn from it until they have so many bytes, in its order.

    A smaller draw is part of every larger one. What is there already is kept if it is the same.
    """
    whole = path_of(text, data, "train")
    if most_bytes is None or whole.stat().st_size <= most_bytes:
        return whole
    corpus = CorpusSettings(corpus=(str(whole),), split=text["split"])
    texts = [one.removesuffix("\n") + "\n" for one in read_texts(corpus)]
    order = np.random.default_rng(SEED).permutation(len(texts))
    sizes = np.cumsum([len(texts[place].encode()) for place in order])
    # One document at least, however long.
    many = max(1, int(np.searchsorted(sizes, most_bytes, side="right")))
    drawn = "".join(texts[place] for place in sorted(order[:many])).encode()
    path = folder / f"{text['folder']}-{most_bytes}{text['ending']}"
    if not path.exists() or path.read_bytes() != drawn:
        files.write(path, drawn)
    return path


if __name__ == "__main__":
    from retomaton_dist.cli import main

    sys.exit(main(["reproduce", *sys.argv[1:]]))
