"""What a calibration holds, and how it lies on disk.

FOLDER/calibration.json           constants of all methods, thresholds by FoSS, what made it
FOLDER/calibration.safetensors    the networks' weights
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from retomaton_dist.calibration.thresholds import Thresholds
from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.lm.identity import ModelIdentity
from retomaton_dist.methods.method import Calibrated, arrays_below
from retomaton_dist.settings import WalkSettings
from retomaton_dist.storage import canonical, files
from retomaton_dist.storage.canonical import Json, content_hash
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.store import Store

Arrays = dict[str, NDArray[Any]]

CALIBRATIONS = "calibrations"
FACTS, ARRAYS = "calibration.json", "calibration.safetensors"
IN_STORE = "`retomaton verify STORE --repair`, then `retomaton calibrate STORE ...` again"
BESIDE_RESULTS = "delete it and run the same command again"


@dataclass(frozen=True)
class Calibration:
    """What was found, and what it was found with: whoever uses it must walk and search alike.

    Without held-out text (constants were given) there are no `thresholds`. `targets` are the FoSS
    that were asked for, the one to begin with first. `sources` are the files of the text, path by
    digest; `tried` are the temperatures that were chosen from. `inputs` identify what it was found
    from. `digest` is that of its stage, if it lies in a store.
    """

    name: str
    found: Mapping[str, Calibrated]
    thresholds: Thresholds | None
    targets: tuple[float, ...]
    automata: tuple[str, ...]
    walk: WalkSettings
    index: str | None
    suffixes: str | None
    parameters: str | None
    sources: Mapping[str, str] = field(default_factory=dict)
    tried: Json = field(default_factory=dict)
    inputs: Json = field(default_factory=dict)
    digest: str | None = None

    @classmethod
    def open(cls, store: Store, name: str) -> "Calibration":
        """A finished calibration of a store, its bytes compared with their digests first."""
        stage = store.stage(f"calibrate/{name}")
        for path, expected in stage.files.items():
            problem = files.problem_of(store.path / path, expected)
            if problem:
                raise DamagedStore(f"{store.path / path} {problem}; {IN_STORE}")
        return cls.read(folder_of(store.path, name), name, IN_STORE, stage.digest)

    @classmethod
    def read(
        cls, folder: Path, name: str = "", remedy: str = BESIDE_RESULTS, digest: str | None = None
    ) -> "Calibration":
        """What lies in a folder; `remedy` is what to do if it is damaged."""
        kept = canonical.read(folder / FACTS, remedy)
        arrays = _read_arrays(folder / ARRAYS, kept.get("arrays"), remedy)
        found = {
            method: Calibrated(facts, arrays_below(arrays, f"{method}:"))
            for method, facts in kept["methods"].items()
        }
        # Until version 0.1, what a store's calibration was made with lay below `inputs`.
        made = {**kept["inputs"], **kept.get("made_with", {})}
        thresholds = made.get("thresholds")
        return cls(
            name,
            found,
            Thresholds.from_facts(thresholds) if thresholds else None,
            tuple(made.get("targets", ())),
            tuple(made.get("automata", ())),
            WalkSettings(**made.get("walk", {})),
            made.get("index"),
            made.get("suffixes"),
            made.get("parameters"),
            made.get("sources", {}),
            made.get("tried", {}),
            kept["inputs"],
            digest,
        )

    def write(self, folder: Path) -> dict[str, FileDigest]:
        """Write it into a folder, in place of what was there; its files by name."""
        arrays = {
            f"{name}:{key}": np.ascontiguousarray(array)
            for name, calibrated in self.found.items()
            for key, array in calibrated.arrays.items()
        }
        written = files.write(folder / ARRAYS, save(arrays))
        made_with: Json = {
            "thresholds": self.thresholds.as_facts() if self.thresholds else None,
            "targets": list(self.targets),
            "automata": list(self.automata),
            "walk": asdict(self.walk),
            "index": self.index,
            "suffixes": self.suffixes,
            "parameters": self.parameters,
            "sources": dict(self.sources),
            "tried": self.tried,
        }
        methods = {name: calibrated.facts for name, calibrated in self.found.items()}
        facts = {"methods": methods, "inputs": self.inputs, "made_with": made_with}
        canonical.write(folder / FACTS, {**facts, "arrays": written.digest})
        return {FACTS: files.digest_of(folder / FACTS), ARRAYS: written}

    def is_from(self, inputs: Json) -> bool:
        """Whether it was found from these inputs."""
        return content_hash(self.inputs) == content_hash(inputs)

    def check(self, method: str) -> None:
        """Refuse a method that it knows nothing of."""
        if method not in self.found:
            raise BadInput(
                f"calibration {self.name!r} has nothing for {method}, only for "
                f"{', '.join(self.found)}"
            )


def check_model(store: Store, name: str, lm: ModelIdentity) -> None:
    """Refuse a calibration of the store that was made with another LM."""
    if not is_made_with(store, name, lm):
        raise BadInput(
            f"calibration {name!r} of {store.path} was made with another LM than {lm}: make one "
            f"with `retomaton calibrate {store.path} --on TEXT --model {lm.place} --name NAME`"
        )


def is_made_with(store: Store, name: str, lm: ModelIdentity) -> bool:
    """Whether the probabilities that a calibration weighs were this LM's.

    Queries were those of the store's one model of keys.
    """
    return bool(store.stage(f"calibrate/{name}").config["model"] == lm.weights)


def read_known(folder: Path, inputs: Json) -> Calibration | None:
    """What an earlier run has left in a folder, if it was found from these inputs."""
    if not (folder / FACTS).exists():
        return None
    known = Calibration.read(folder)
    return known if known.is_from(inputs) else None


def folder_of(store: Path, name: str) -> Path:
    """Where a calibration of a store lies."""
    return store / CALIBRATIONS / name


def newest_calibration(store: Store, lm: ModelIdentity) -> str | None:
    """The newest finished calibration of a store that was made with this LM."""
    names = reversed(store.finished("calibrate"))
    return next((name for name in names if is_made_with(store, name, lm)), None)


def _read_arrays(path: Path, expected: str | None, remedy: str) -> Arrays:
    try:
        if expected is not None and files.digest_of(path).digest != expected:
            raise DamagedStore(f"{path}: its contents were altered; {remedy}")
        arrays: Arrays = load_file(path)
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedStore(f"{path} cannot be read: {error}; {remedy}") from error
    return arrays
