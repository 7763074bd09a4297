"""What the campaign works on: a tiny model and corpus, and what undisturbed runs make of them.

Every target is one command on one store. `before` is the store that it finds, `after` what it
leaves when nobody disturbs it: the oracle. Both are made once, in this process, without Ray.
"""

import contextlib
import io
import json
import random
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from retomaton_dist.cli import main
from retomaton_dist.storage.lock import LOCK_NAME
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.conftest import TEXT, contents, save_tiny_model

CORPUS_LINES, TEXT_LINES, HELD_LINES = 1000, 16, 12
CHAIN = (
    "tokenize", "extract", "cluster", "index", "compile", "suffix", "statistics", "eval"
)  # fmt: skip
ALIKE = {"served": "eval", "job": "statistics"}  # end with the same
JOB = """
store = "{store}"
[corpus]
corpus = ["{corpus}"]
split = "line"
[model]
model = "{model}"
[tokenize]
unit-bytes = 4000
[extract]
chunk-entries = 2048
[cluster]
states = 150
iterations = 12
[index]
factory = "IVF32,SQ8"
shards = 3
recall-queries = 32
recall-k = 16
[compile]
unit-entries = 2048
code-size = 8
[suffix]
unit-entries = 2048
[workers]
workers = 3
unit-timeout = {unit_timeout}
progress = "json"
"""


@dataclass(frozen=True)
class Target:
    """A command, the target whose result it starts from, and how many lines of progress it has."""

    name: str
    arguments: tuple[str, ...]
    begins_after: str | None
    steps: int = 0


def targets_for(folder: Path) -> dict[str, Target]:
    """All commands that are disturbed, in the order in which a store is built."""
    corpus = ("--corpus", f"{folder}/corpus.txt", "--split", "line", "--model", f"{folder}/model",
              "--unit-bytes", "4000")  # fmt: skip
    index = ("--factory", "IVF32,SQ8", "--shards", "3", "--recall-queries", "32",
             "--recall-k", "16")  # fmt: skip
    evaluation = (
        "--text", f"{folder}/test.txt", "--calibrate-on", f"{folder}/dev.txt", "--k", "32",
        "--max-knns", "32", "--tau", "1,4,inf", "--methods", "lm,knnlm,retomaton",
    )  # fmt: skip
    listed = [
        Target("tokenize", ("tokenize", *corpus), None),
        Target("extract", ("extract", *corpus, "--chunk-entries", "2048"), "tokenize"),
        Target("cluster", ("cluster", "--states", "150", "--iterations", "12"), "extract"),
        Target("index", ("index", *index), "cluster"),
        Target("compile", ("compile", "--unit-entries", "2048", "--code-size", "8"), "index"),
        Target("suffix", ("suffix", "--unit-entries", "2048"), "compile"),
        Target("statistics", ("statistics",), "suffix"),
        Target("eval", ("eval", *evaluation), "statistics"),
        Target("served", ("eval", *evaluation, "--served"), "statistics"),
        Target("job", ("job",), "extract"),
    ]
    return {target.name: target for target in listed}


@dataclass
class Bench:
    """The folder with everything, and the oracle for each target, made when first asked for."""

    folder: Path
    commands: dict[str, Target]
    steps: dict[str, int] = field(default_factory=dict)

    @classmethod
    def made(cls, folder: Path) -> "Bench":
        """Make the model and the texts."""
        save_tiny_model(folder / "model")
        for name, seed, lines in (
            ("corpus", 7, CORPUS_LINES),
            ("test", 8, TEXT_LINES),
            ("dev", 9, HELD_LINES),
        ):
            _write_text(folder / f"{name}.txt", seed, lines)
        return cls(folder, targets_for(folder))

    def target(self, name: str) -> Target:
        """A target, once it is known what an undisturbed run of it makes."""
        last = ALIKE.get(name, name)
        for each in CHAIN[: CHAIN.index(last) + 1]:
            if each not in self.steps:
                self.steps[each] = _steps_of(self.commands[each], self.folder / "undisturbed.store")
                shutil.copytree(self.folder / "undisturbed.store", self.after(each))
        built = CHAIN[CHAIN.index("cluster") : CHAIN.index("eval")]
        steps = sum(self.steps[each] for each in built) if name == "job" else self.steps[last]
        return replace(self.commands[name], steps=steps)

    def after(self, target: str) -> Path:
        """The store as an undisturbed run of a target leaves it."""
        return self.folder / f"after-{ALIKE.get(target, target)}.store"

    def lay_out(self, target: Target, store: Path) -> None:
        """Put the store that a target starts from in a place of its own."""
        shutil.rmtree(store, ignore_errors=True)
        if target.begins_after:
            shutil.copytree(self.after(target.begins_after), store)

    def write_job(self, path: Path, store: Path, unit_timeout: float) -> None:
        """Write the settings of the target `job`: a build of what is missing."""
        filled = {"corpus": self.folder / "corpus.txt", "model": self.folder / "model"}
        path.write_text(JOB.format(store=store, unit_timeout=unit_timeout, **filled))

    def difference(self, target: Target, store: Path, damaged: str = "") -> str | None:
        """How a store differs from an undisturbed one, but for a file that was damaged on purpose.

        A damaged file that no stage had to read may stay as it is, if `verify` names it.
        """
        expected, found = _frozen(self.after(target.name)), _frozen(store)
        if damaged in expected and found.get(damaged) != expected[damaged]:
            if damaged != "store.json" and not _is_named(store, damaged):
                return f"{damaged} is damaged, and verify does not say so"
            expected[damaged] = found.get(damaged, b"")
            found[damaged] = expected[damaged]
        if found != expected:
            names = {*found, *expected}
            return ", ".join(
                sorted(name for name in names if found.get(name) != expected.get(name))[:4]
            )
        if target.name in ("eval", "served"):
            return _compared(_results(self.after(target.name)), _results(store))
        return None


def _write_text(path: Path, seed: int, lines: int) -> None:
    chosen, words = random.Random(seed), TEXT.split()
    made = [" ".join(chosen.choices(words, k=chosen.randint(4, 14))) for _ in range(lines)]
    path.write_text("\n".join(made) + "\n")


def _steps_of(target: Target, store: Path) -> int:
    """Run a command undisturbed; return its lines of progress."""
    command, *flags = target.arguments
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main([command, str(store), *flags, "--workers", "0", "--progress", "json"])
    assert code == 0, said.getvalue()
    return sum(line.startswith("{") for line in said.getvalue().splitlines())


def _frozen(store: Path) -> dict[str, bytes]:
    """All files that must be the same to the last bit: everything but evaluations."""
    return {
        name: data
        for name, data in contents(store).items()
        if not name.startswith("evaluations/") and name != LOCK_NAME
    }


def _is_named(store: Path, name: str) -> bool:
    return any(finding.path == name for finding in verify(Store.open(store)).findings)


def _results(store: Path) -> dict[str, Any]:
    """What an evaluation found, without how long it took."""
    (out,) = (store / "evaluations").iterdir()
    digests = {
        f"{text}/{name}": stage.digest
        for text in ("calibration", "text")
        for name, stage in Store.open(out / text).manifest.stages.items()
    }
    left = [path.name for path in out.rglob(".*.tmp")]
    rows = _timeless(json.loads((out / "results.json").read_bytes()))
    return {**digests, "leftovers": left, "rows": rows["rows"]}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(item) for name, item in value.items() if name != "seconds"}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _compared(expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    wrong = [name for name in expected if found.get(name) != expected[name]]
    return f"evaluation: {', '.join(wrong)}" if wrong else None
