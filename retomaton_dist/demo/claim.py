"""What the demo claims, checked against its own results."""

from collections.abc import Sequence

from retomaton_dist.errors import RetomatonError
from retomaton_dist.storage.canonical import Json


class ClaimFailed(RetomatonError):
    """The demo's results are not what it says they are."""


def check_claim(rows: Sequence[Json]) -> None:
    """Refuse results in which kNN-LM does not help, or the automaton does not help it further.

    The automaton is compared with what differs by it alone: as many candidates, the same mixing.
    """
    for names in (("lm", "knnlm+wide", "retomaton"), ("lm", "knnlm+lambda", "retomaton+lambda")):
        levels = [_perplexity(rows, name, float(name == "lm")) for name in names]
        if not levels[0] > levels[1] > levels[2]:
            shown = ", ".join(f"{level:.2f}" for level in levels)
            raise ClaimFailed(
                f"perplexities of {', '.join(names)} without saved searches are {shown}: they "
                f"should fall; was the model trained (--minutes)?"
            )


def _perplexity(rows: Sequence[Json], method: str, foss: float) -> float:
    """Of the method's first row with this FoSS: that of the main automaton."""
    found = (row for row in rows if row["method"] == method and row["foss"] == foss)
    return float(next(found)["perplexity"])
