"""Per-token results of one pass over a text, read column by column in the order of the text."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.text_models import TEXT_COLUMNS, TextOutput
from retomaton_dist.engine.walks import KEPT_COLUMNS, WalkResult
from retomaton_dist.errors import BadInput
from retomaton_dist.storage import scores
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.store import Store

FOLDER = "scores"


@dataclass(frozen=True)
class Scores:
    """The scores of a pass. Rows are in the order (document, position), whatever wrote them.

    A column is read when it is asked for, so that memory holds one walk at a time.
    """

    paths: tuple[Path, ...]

    @classmethod
    def open(cls, text: Store, name: str) -> "Scores":
        """Open the pass `name` of a text whose scoring is finished; altered files are refused."""
        check_stage(text, "score")
        found = tuple(sorted((text.path / FOLDER / name).glob("*.parquet")))
        if not found:
            raise BadInput(f"{text.path}: there is no pass {name!r} over this text")
        return cls(found)

    @cached_property
    def temperatures(self) -> tuple[float, ...]:
        """The grid that log-sums were taken for."""
        return tuple(scores.read_facts(self.paths[0])["temperatures"])

    @cached_property
    def walks(self) -> tuple[str, ...]:
        """Labels of the walks that were taken."""
        return tuple(scores.read_facts(self.paths[0])["walks"])

    @cached_property
    def document(self) -> NDArray[np.int32]:
        """Number of each row's document."""
        return self._column("document")

    @cached_property
    def position(self) -> NDArray[np.int32]:
        """Position inside the document."""
        return self._column("position")

    @cached_property
    def token(self) -> NDArray[np.int32]:
        """The token that was to be predicted."""
        return self._column("token")

    @cached_property
    def log_lm(self) -> NDArray[np.float32]:
        """Its log-probability under the LM alone."""
        return self._column("log_lm")

    @cached_property
    def entropy(self) -> NDArray[np.float32]:
        """Entropy of the LM's distribution."""
        return self._column("entropy")

    @cached_property
    def confidence(self) -> NDArray[np.float32]:
        """The LM's largest log-probability."""
        return self._column("confidence")

    @cached_property
    def favourite(self) -> NDArray[np.int32]:
        """The token that the LM finds most probable."""
        return self._column("favourite")

    def of_favourites(self) -> "Scores":
        """The same positions as if their tokens were the LM's favourites.

        With what `walk(label).of_favourites()` is, a method then says how probable these are.
        """
        made = Scores(self.paths)
        text = self.text and self.text.of_favourites()
        vars(made).update(vars(self), token=self.favourite, log_lm=self.confidence, text=text)
        return made

    def whole(self) -> LMOutput:
        """What the LM said, as the pass had it; without queries if they were not kept."""
        kept = "query" in scores.column_names(self.paths[0])
        queries = self._column("query") if kept else np.empty((len(self), 0), np.float16)
        previous = np.where(self.position > 0, np.roll(self.token, 1), np.int32(-1))
        said = self.log_lm, self.entropy, self.confidence, self.favourite
        return LMOutput(queries, self.token, previous, *said, self.text)

    @cached_property
    def text(self) -> TextOutput | None:
        """What models of text alone made of the rows, if they were asked."""
        if TEXT_COLUMNS[0] not in scores.column_names(self.paths[0]):
            return None
        columns: dict[str, Any] = {name: self._column(name) for name in TEXT_COLUMNS}
        return TextOutput(**columns)

    def walk(self, label: str) -> WalkResult:
        """What a walk came to."""
        if label not in self.walks:
            raise BadInput(f"no walk {label!r} was taken; there are {', '.join(self.walks)}")
        names = {name: f"{label}.{name}" for name in KEPT_COLUMNS}
        found = scores.read_columns(self.paths, list(names.values()))
        columns = {name: found[column][self._order] for name, column in names.items()}
        shape = len(self), len(self.temperatures), 2
        sums, favoured = columns["sums"], columns["favoured"]
        shaped = {"sums": sums.reshape(*shape, 2), "favoured": favoured.reshape(shape)}
        restarted = columns["searched"] | (columns["matched"] > 0)
        since = steps_since(self.document, restarted)
        whole: dict[str, Any] = {**columns, **shaped, "since": since}
        return WalkResult(self.temperatures, **whole)

    def searched(self, label: str) -> NDArray[np.bool_]:
        """Where a walk searched: one column of what `walk` reads."""
        return self._column(f"{label}.searched")

    def __len__(self) -> int:
        return len(self._order)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        places = scores.read_columns(self.paths, ["document", "position"])
        return np.lexsort((places["position"], places["document"]))

    def _column(self, name: str) -> NDArray[Any]:
        return scores.read_columns(self.paths, [name])[name][self._order]


def steps_since(documents: NDArray[Any], restarted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Steps since the last restart of the same document, or since its start; 0 where it restarts.

    Rows are in the order of the text.
    """
    places = np.arange(len(documents))
    starts = np.concatenate([[True], documents[1:] != documents[:-1]])[: len(documents)]
    steps: NDArray[np.int64] = places - np.maximum.accumulate(
        np.where(restarted | starts, places, 0)
    )
    return steps
