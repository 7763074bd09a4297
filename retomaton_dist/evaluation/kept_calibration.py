"""A calibration that is part of a store: what `retomaton calibrate` found, under a name.

calibrations/NAME/calibration.json           constants of all methods, thresholds by FoSS
calibrations/NAME/calibration.safetensors    the networks' weights
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.evaluation import calibration as calibrating
from retomaton_dist.evaluation.calibration import ARRAYS, FACTS, Found
from retomaton_dist.evaluation.thresholds import Thresholds
from retomaton_dist.settings import WalkSettings
from retomaton_dist.storage import canonical, files
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.prune import CALIBRATE, CALIBRATIONS
from retomaton_dist.storage.store import Store

_REMEDY = "`retomaton verify STORE --repair`, then `retomaton calibrate STORE ...` again"


@dataclass(frozen=True)
class KeptCalibration:
    """What was found, and what it was found with: whoever uses it must walk and search alike.

    `targets` are the FoSS that were asked for, the one to begin with first. `sources` are the
    files of the text, path by digest; `tried` are the temperatures that were chosen from.
    """

    name: str
    found: Found
    thresholds: Thresholds
    targets: tuple[float, ...]
    automata: tuple[str, ...]
    walk: WalkSettings
    index: str | None
    suffixes: str | None
    parameters: str | None
    sources: Mapping[str, str]
    tried: Json
    digest: str | None = None

    @classmethod
    def open(cls, store: Store, name: str) -> "KeptCalibration":
        """A finished calibration, its bytes compared with their digests first."""
        stage = store.stage(f"{CALIBRATE}{name}")
        for path, expected in stage.files.items():
            problem = files.problem_of(store.path / path, expected)
            if problem:
                raise DamagedStore(f"{store.path / path} {problem}; {_REMEDY}")
        return cls.read(store.path, name, stage.digest)

    @classmethod
    def read(cls, store: Path, name: str, digest: str | None = None) -> "KeptCalibration":
        """What lies in a store, unchecked."""
        folder = folder_of(store, name)
        found = calibrating.read(folder)
        assert found is not None, "its stage has written it"
        facts = canonical.read(folder / FACTS, _REMEDY)["inputs"]
        thresholds = Thresholds.from_facts(facts.pop("thresholds"))
        walk = WalkSettings(**facts.pop("walk"))
        targets, automata = tuple(facts.pop("targets")), tuple(facts.pop("automata"))
        return cls(name, found, thresholds, targets, automata, walk, **facts, digest=digest)

    def keep(self, store: Path) -> None:
        """Write it into a store."""
        facts: Json = {
            "thresholds": self.thresholds.as_facts(),
            "targets": list(self.targets),
            "automata": list(self.automata),
            "walk": asdict(self.walk),
            "index": self.index,
            "suffixes": self.suffixes,
            "parameters": self.parameters,
            "sources": dict(self.sources),
            "tried": self.tried,
        }
        calibrating.keep(folder_of(store, self.name), self.found, facts)

    def files(self, store: Path) -> dict[str, FileDigest]:
        """Its files, relative to the store."""
        paths = (folder_of(store, self.name) / name for name in (FACTS, ARRAYS))
        return {path.relative_to(store).as_posix(): files.digest_of(path) for path in paths}

    def check(self, method: str) -> None:
        """Refuse a method that it knows nothing of."""
        if method not in self.found:
            raise BadInput(
                f"calibration {self.name!r} has nothing for {method}, only for "
                f"{', '.join(self.found)}"
            )


def folder_of(store: Path, name: str) -> Path:
    """Where a calibration lies."""
    return store / CALIBRATIONS / name


def calibration_names(store: Store) -> list[str]:
    """Finished calibrations, the newest last."""
    return [
        name.removeprefix(CALIBRATE)
        for name, stage in store.manifest.stages.items()
        if name.startswith(CALIBRATE) and stage.done
    ]
