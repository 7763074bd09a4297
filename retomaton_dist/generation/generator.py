"""What makes texts grow: the model, how a walk and models of text are mixed in."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.engine.online import OnlineMixing
from retomaton_dist.engine.several_stores import (
    JoinedWalker,
    StoreWalk,
    search_all,
    store_walks,
    text_models,
)
from retomaton_dist.engine.text_models import TextModels
from retomaton_dist.lm.paired_rows import PairedRows
from retomaton_dist.lm.stepper import Stepper
from retomaton_dist.lm.text_rows import GrowingRows
from retomaton_dist.methods.method import CurvePoint

if TYPE_CHECKING:
    from retomaton_dist.generation.loaded import RetomatonLM

Tokens = NDArray[np.int32]

# A text that grows is the only document there is: so it is walked alike alone or among others.
DOCUMENT = 0


@dataclass(frozen=True)
class Generator:
    """What makes texts grow: the model, and how the walks of stores, if any, are mixed in.

    `prefix` is the token that the model reads before a document, as in the corpus, or None; `text`
    are the models of text alone that the mixture asks, if it does. `key_stepper` gives the queries
    if the LM does not.
    """

    stepper: Stepper
    prefix: int | None
    walks: tuple[StoreWalk, ...]
    point: CurvePoint
    text: TextModels | None = None
    key_stepper: Stepper | None = None

    @property
    def online(self) -> OnlineMixing | None:
        """The mixing, if its weights follow the text."""
        return self.point.mixing if isinstance(self.point.mixing, OnlineMixing) else None

    @property
    def unpredicted(self) -> int:
        """How many tokens of a text are read before the first one is predicted."""
        return 1 if self.prefix is None else 0

    @property
    def walks_prompts(self) -> bool:
        """Whether p depends on where the walk was before."""
        spec = self.point.spec
        return spec is not None and (not spec.stateless or self.online is not None)

    def rows(self, count: int) -> GrowingRows | PairedRows:
        """So many texts of which nothing is read yet."""
        if self.key_stepper is None:
            return GrowingRows(self.stepper, count)
        lm = GrowingRows(self.stepper, count, queries=False)
        return PairedRows(lm, GrowingRows(self.key_stepper, count))

    def walker(self, rows: int) -> JoinedWalker | None:
        """What walks so many texts; None if nothing is walked."""
        return JoinedWalker(self.walks, rows) if self.walks else None

    def search(self, queries: NDArray[np.float16]) -> NDArray[np.int64]:
        """The entries nearest to each query, as many as each walk takes."""
        return search_all(self.walks, queries)

    def gate(self, lm: LMOutput, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where the walk may search, at these positions of texts."""
        if self.point.gate is None:
            return np.ones(len(lm), np.bool_)
        documents = np.full(len(lm), DOCUMENT, np.int32)
        return self.point.gate(lm, documents, positions.astype(np.int32))


def generator_of(lm: "RetomatonLM") -> Generator:
    """What makes texts grow as a loaded store says."""
    stepper, keys = Stepper(lm.lm, lm.context, lm.stride), lm.key_model
    key_stepper = None
    if keys is not None:
        key_stepper = Stepper(keys.lm, keys.context, keys.stride, keys_only=True)
    walks = store_walks(lm.retrieval, lm.point.spec, lm.further)
    text = text_models(lm.retrieval, lm.further, lm.lm.vocabulary)
    return Generator(stepper, lm.store.corpus().prefix, walks, lm.point, text, key_stepper)
