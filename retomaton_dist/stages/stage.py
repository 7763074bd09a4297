"""A stage of the build as everything around it sees it: its command, `build` and `plan`.

`settings/stages.py` declares the stages in their order; how one is run, unit by unit, is its
`Plan` (`runner.py`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import BuildSettings
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.store import Store, StoreWriter

if TYPE_CHECKING:
    from retomaton_dist.stages.build import BuildInputs


@dataclass(frozen=True)
class Running:
    """A build, or a part of it, under way. Stages that read no text need no `inputs`."""

    writer: StoreWriter
    settings: BuildSettings
    session: Session
    inputs: "BuildInputs | None" = None

    @property
    def store(self) -> Store:
        """The store as it is now."""
        return Store.open(self.writer.path.resolve())

    @property
    def text(self) -> "BuildInputs":
        """Corpus and model."""
        assert self.inputs is not None, "a stage that reads text was given none"
        return self.inputs


class BuildStage(ABC):
    """What one stage refuses, does and costs.

    `gpu` says that it uses GPUs where there are any; `keys` that it makes or reads keys, or what
    comes of them; `needs` is the stage that must be finished.
    """

    gpu = False
    keys = True
    needs = ""

    def check(  # noqa: B027 - most refuse nothing
        self, settings: BuildSettings, dimension: int, store: Path | None
    ) -> None:
        """Refuse settings that are wrong for keys of this width, in this store if one is given.

        The store need not be there yet.
        """

    def check_fit(self, settings: BuildSettings, shape: Shape) -> None:  # noqa: B027
        """Refuse settings that do not fit so many entries."""

    def check_store(self, store: Store, settings: BuildSettings) -> None:  # noqa: ARG002
        """Refuse a store that lacks what the stage reads, or that the settings do not fit."""
        if self.needs:
            store.stage(self.needs)

    @abstractmethod
    def run(self, running: Running) -> None:
        """Run the stage, or what is missing of it."""

    @abstractmethod
    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:
        """What the stage would leave and need."""
