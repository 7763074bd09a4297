"""What the language model says at given positions: queries, and log-probabilities of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.reading import ModelReader, Span

# Rows of logits that are normalised at once: bounds what a large vocabulary costs.
ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class Reading:
    """Row by row: the query, the token, and what the LM makes of it (natural logarithms).

    `previous` is the token before, -1 at a document's start. `entropy` and `confidence` (the
    largest log-probability) do not depend on the token.
    """

    queries: NDArray[np.float16]
    tokens: NDArray[np.int32]
    previous: NDArray[np.int32]
    log_lm: NDArray[np.float32]
    entropy: NDArray[np.float32]
    confidence: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.tokens)


class TextReader(ModelReader):
    """Runs the model over spans of a text.

    Queries are rounded to float16 as keys are, so that a context the corpus has finds itself at
    distance 0.
    """

    def read(self, spans: Sequence[Span]) -> Reading:
        """Read the positions of the spans, which follow each other by rows."""
        rows = sum(span.last - span.first for span in spans)
        made = Reading(
            np.empty((rows, self.lm.dimension), np.float16),
            *self._tokens(spans, rows),
            *(np.empty(rows, np.float32) for _ in range(3)),
        )
        for inputs, kept in self.windows.batches(spans):
            keys, logits = self.lm.keys_and_logits(torch.from_numpy(inputs))
            for row, item in enumerate(kept):
                place = slice(item.start, item.start + item.last - item.first)
                self._keep(made, slice(item.first, item.last), keys[row, place], logits[row, place])
        if not np.isfinite(made.queries).all():
            raise ModelError(
                "a query is NaN or beyond float16's range; is it the model of the store?"
            )
        return made

    def _tokens(
        self, spans: Sequence[Span], rows: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The tokens of the spans, and those before them."""
        tokens, previous = np.empty(rows, np.int32), np.full(rows, -1, np.int32)
        corpus = self.corpus
        for span in spans:
            begin = int(corpus.first_entries[span.document])
            head = 1 if span.first else 0
            values = corpus.values(begin + span.first - head, begin + span.last)
            stop = span.row + span.last - span.first
            tokens[span.row : stop] = values[head:]
            previous[span.row + 1 - head : stop] = values[:-1]
        return tokens, previous

    def _keep(self, made: Reading, rows: slice, keys: Tensor, logits: Tensor) -> None:
        made.queries[rows] = keys.to(torch.float16).cpu().numpy()
        wanted = torch.from_numpy(made.tokens[rows].astype(np.int64)).to(logits.device)
        parts = [
            _scores(logits[first : first + ROWS_AT_ONCE], wanted[first : first + ROWS_AT_ONCE])
            for first in range(0, len(wanted), ROWS_AT_ONCE)
        ]
        made.log_lm[rows], made.entropy[rows], made.confidence[rows] = torch.cat(parts, 1).cpu()


def _scores(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability of the token, entropy and largest log-probability: [3, rows]."""
    logs = torch.log_softmax(logits.float(), dim=-1)
    entropy = -(logs.exp() * logs).nan_to_num(0.0).sum(-1)
    return torch.stack([logs.gather(1, tokens[:, None])[:, 0], entropy, logs.amax(-1)])
