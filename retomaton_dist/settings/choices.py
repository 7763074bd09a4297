"""What a setting can choose by name: to add one, write its module and give it a line here."""

from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.registry import Registered, Registry, nearest

CODECS: Registry[Any] = Registry(
    "codec",
    {
        "pq": Registered("retomaton_dist.codec.pq:PqCodec", "short codes"),
        "fp16": Registered("retomaton_dist.codec.fp16:Fp16Codec", "the keys themselves"),
    },
)
CLUSTERINGS: Registry[Any] = Registry(
    "algorithm",
    {
        "kmeans": Registered("retomaton_dist.stages.kmeans:Kmeans"),
        "greedy": Registered(
            "retomaton_dist.stages.greedy:Greedy", "entries absorb near neighbours of equal value"
        ),
        "none": Registered(
            "retomaton_dist.stages.cluster:NoClusters", "every entry is its own state"
        ),
    },
)
# The names of methods/registry.py, which takes seconds to import: a slip is refused before that.
_MIXED = [
    f"{name}+ngram+cache" for name in ("lm", "knnlm", "suffix", "retomaton", "retomaton+suffix")
]
METHODS = (
    *("lm", "knnlm", "knnlm+wide", "knnlm+lambda", "adaptret", "suffix", "suffix+lambda"),
    *("retomaton", "retomaton+pw", "retomaton+lambda", "retomaton+suffix", "retomaton+random"),
    *("retomaton+suffix+lambda", "ngram", "lm+cache", "lm+ngram", *_MIXED, "lm+cache+lambda"),
    *(f"{name}+lambda" for name in _MIXED),
)


def check_method(flag: str, name: str) -> None:
    """Refuse a method that there is not."""
    if name not in METHODS:
        near = nearest(name, METHODS)
        meant = f" (did you mean {near}?)" if near else ""
        raise BadInput(f"{flag} {name}: choose from {', '.join(METHODS)}{meant}")
