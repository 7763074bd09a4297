"""What the demo claims, checked against its own results."""

from collections.abc import Sequence

from retomaton_dist.errors import RetomatonError
from storage.canonical import Json


class ClaimFailed(RetomatonError):
    """The demo's results are not what it says they are."""


def check_claim(rows: Sequence[Json]) -> None:
    """Refuse results in which kNN-LM does not help, or RetoMaton does not help it further."""
    lm, knn = _perplexity(rows, "lm", 1.0), _perplexity(rows, "knnlm", 0.0)
    automaton = _perplexity(rows, "retomaton", 0.0)
    if not lm > knn > automaton:
        raise ClaimFailed(
            f"perplexities of lm, knnlm and retomaton without saved searches are {lm:.2f}, "
            f"{knn:.2f} and {automaton:.2f}: they should fall; was the model trained (--minutes)?"
        )


def _perplexity(rows: Sequence[Json], method: str, foss: float) -> float:
    """Of the method's first row with this FoSS: that of the main automaton."""
    found = (row for row in rows if row["method"] == method and row["foss"] == foss)
    return float(next(found)["perplexity"])
