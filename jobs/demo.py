"""The demo: train a model, build a store with it, evaluate held-out text, say what came out.

It is a script over the public API; every step is a command that a user could have typed. Its text
is the source of Python's own standard library, its model is trained for a fixed number of steps on
a fixed number of threads: with the same Python, its figures are those of the README.
"""

import filecmp
import hashlib
import shlex
import shutil
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import retomaton_dist as rd
from retomaton_dist.cli.results import ladder_as_text
from retomaton_dist.errors import BadInput, RetomatonError
from retomaton_dist.runtime.progress import clock
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import DemoSettings, WorkerSettings
from retomaton_dist.storage import files
from retomaton_dist.storage.verify import verify

# One thread wherever it runs: how sums are split among threads changes their last digits, and on
# a busy machine threads that wait for each other are many times slower.
THREADS = 1
# Enough to see the differences, few enough for minutes.
POSITIONS, CALIBRATION_POSITIONS = 12_000, 10_000
# pydoc_data is the language reference as one huge string, encodings are tables: not source.
LEFT_OUT = {"test", "tests", "idlelib", "pydoc_data", "encodings", "site-packages", "__pycache__"}
# A hash of a file's path, a number from 0 to 1, decides on its part. The corpus comes to about
# 400,000 entries. The others have short files alone, for intervals need many documents.
PARTS = {"corpus": (0.0, 0.2), "calibration": (0.2, 0.5), "test": (0.5, 0.8)}
SHORT_BYTES = 3_000
SHOWN = ("lm", "knnlm", "knnlm+lambda", "retomaton", "retomaton+lambda")


class ClaimFailed(RetomatonError):
    """The demo's results are not what it says they are."""


@dataclass(frozen=True)
class Demo:
    """The demo's steps, on its own text and model unless others are given.

    Of a text of yours, nothing is evaluated unless you say what.
    """

    settings: DemoSettings
    workers: WorkerSettings
    say: Callable[[str], None]

    @property
    def out(self) -> Path:
        """Where everything is made."""
        return Path(self.settings.out)

    def run(self) -> None:
        """Do all steps, or what is missing of them."""
        start, store, chosen = time.monotonic(), str(self.out / "demo.store"), self.settings
        own = not chosen.corpus
        if own:
            parts = copy_library(self.out / "text")
            self.say(f"Text: Python's standard library, copied to {self.out / 'text'}")
            corpus: dict[str, Any] = {"corpus": (str(parts["corpus"]),)}
            text: tuple[str, ...] = (str(parts["test"]),)
            held: tuple[str, ...] = (str(parts["calibration"]),)
        else:
            split = {"split": chosen.split} if chosen.split else {}
            corpus = {"corpus": chosen.corpus, **split}
            text, held = chosen.text, chosen.calibrate_on
        model = chosen.model or self._train(corpus)
        with Session(self.workers) as session:
            if not session.here:
                session.join()  # one Ray for all steps
            self._build(store, corpus, model)
            if text:
                rows = self._evaluate(store, text, held)
                if own:
                    check_claim(rows)
        self.say(f"\nDone in {clock(time.monotonic() - start)}. The store from Python:")
        self.say(f'  import retomaton_dist as rd; rd.open("{store}").entry(1000)')

    def _train(self, corpus: dict[str, Any]) -> str:
        folder = str(self.out / "lm")
        chosen = {"steps": self.settings.steps, "threads": THREADS}
        self._step("train a small language model", "train-lm", **corpus, **chosen, out=folder)
        result = rd.train_lm(folder, **corpus, **chosen, progress=self.workers.progress)
        self.say(f"perplexity {result.perplexity:,.1f} per token on held-out files of the corpus")
        return folder

    def _build(self, store: str, corpus: dict[str, Any], model: str) -> None:
        workers = asdict(self.workers)
        self._step("from text to an automaton", "build", store, **corpus, model=model)
        made = rd.build(store, **corpus, model=model, **workers)
        facts = made.describe()
        states = facts["stages"]["cluster/kmeans"]["facts"]["states"]
        self.say(
            f"{facts['entries']:,} entries of {facts['documents']:,} documents in {states:,} "
            f"states, {facts['bytes']['total'] / 1e6:,.0f} MB (`retomaton inspect {store}`)"
        )
        self._step("the same without clustering", "cluster", store, algorithm="none")
        rd.cluster(store, algorithm="none", **workers)
        self._step(None, "compile", store, states="none")
        made = rd.compile(store, states="none", **workers)
        self._step("check every byte of it", "verify", store)
        checked = verify(made.store)
        self.say(f"sound: {checked.files:,} files, {checked.bytes:,} bytes")

    def _evaluate(
        self, store: str, text: Sequence[str], held: Sequence[str]
    ) -> Sequence[dict[str, Any]]:
        chosen = {
            "text": text,
            "calibrate_on": held,
            "positions": POSITIONS,
            "calibration_positions": CALIBRATION_POSITIONS,
            "out": str(self.out / "evaluation"),
        }
        self._step("evaluate text that the model never saw", "eval", store, **chosen)
        evaluation = rd.evaluate(store, **chosen, **asdict(self.workers))
        rows = evaluation.rows
        facts = evaluation.settings["text"]
        self.say(
            f"\n{facts['positions']:,} positions of {facts['documents']:,} documents; the paper's "
            "methods, with the fewest and the most searches saved:\n"
        )
        self.say(as_table([row for row in rows if row["method"] in SHOWN]))
        self.say("\nWhat each part adds, with weights that follow the text; beside it, learned:")
        for ladder in evaluation.ladders:
            self.say(f"\n{ladder_as_text(ladder)}")
        self.say(f"\nAll points and figures: {evaluation.path / 'report.html'}")
        return rows

    def _step(self, what: str | None, command: str, *store: str, **chosen: Any) -> None:
        words = list(store)
        for name, value in chosen.items():
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
        heading = f"\n# {what}\n" if what else ""
        self.say(f"{heading}$ retomaton {command} {shlex.join(words)}")


def copy_library(folder: Path) -> dict[str, Path]:
    """Copy the chosen files of the standard library into a folder per part; return the folders.

    BadInput if anything else lies there: nothing is deleted or overwritten.
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    chosen = {
        folder / part / path.relative_to(library): path
        for path in sorted(library.rglob("*.py"))
        if (part := part_of(path.relative_to(library), path.stat().st_size))
    }
    for path in folder.rglob("*"):
        begun = path.suffix == files.TEMPORARY and path.with_suffix(".py") in chosen
        same = path in chosen and filecmp.cmp(chosen[path], path, shallow=False)
        if not (path.is_dir() or begun or same):
            raise BadInput(
                f"{path} is not of this demo (another Python's, or yours): choose another --out, "
                f"or delete {folder}"
            )
    with files.clear_errors(folder):
        for path, source in chosen.items():
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_suffix(files.TEMPORARY)
                shutil.copyfile(source, partial)
                partial.replace(path)
    return {part: folder / part for part in PARTS}


def part_of(name: Path, size: int) -> str | None:
    """Which part a file of the library belongs to, if any."""
    if not size or LEFT_OUT.intersection(name.parts):
        return None
    place = int(hashlib.sha256(name.as_posix().encode()).hexdigest()[:8], 16) / 2**32
    part = next((part for part, (low, high) in PARTS.items() if low <= place < high), None)
    return part if part == "corpus" or size <= SHORT_BYTES else None


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """The ends of every curve: the points with the fewest and the most searches saved."""
    curves: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        # Without clustering, plain RetoMaton is enough to compare.
        if row["clustering"] != "none" or row["method"] == "retomaton":
            curves.setdefault((row["method"], row["clustering"]), []).append(row)
    lines = [("method", "states", "saved searches", "perplexity", "against kNN-LM")]
    for points in curves.values():
        ends = sorted(points, key=lambda row: (row["foss"], row["perplexity"]))
        fades = ends[-1]["foss"] == 1 and ends[0]["method"] in ("knnlm", "adaptret")
        for row in ends[:1] if len(ends) == 1 or fades else (ends[0], ends[-1]):
            change = row["against_knnlm"]
            lines.append(
                (
                    row["method"],
                    row["clustering"] or "",
                    f"{row['foss']:.1%}",
                    f"{row['perplexity']:.2f}",
                    f"{change['ratio'] - 1:+.1%}" if change else "",
                )
            )
    return "\n".join(f"{a:<24} {b:<7} {c:>14} {d:>11} {e:>15}".rstrip() for a, b, c, d, e in lines)


def check_claim(rows: Sequence[dict[str, Any]]) -> None:
    """Refuse results in which kNN-LM does not help, or the automaton does not help it further.

    The automaton is compared with what differs by it alone: as many candidates, the same mixing.
    """
    for names in (("lm", "knnlm+wide", "retomaton"), ("lm", "knnlm+lambda", "retomaton+lambda")):
        levels = [
            next(
                float(row["perplexity"])
                for row in rows
                if row["method"] == name and (name == "lm" or row["foss"] == 0)
            )
            for name in names
        ]
        if not levels[0] > levels[1] > levels[2]:
            shown = ", ".join(f"{level:.2f}" for level in levels)
            raise ClaimFailed(
                f"perplexities of {', '.join(names)} without saved searches are {shown}: they "
                "should fall; was the model trained (--steps)?"
            )
