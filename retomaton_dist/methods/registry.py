"""All methods by name: to add one, write its file and enter it here."""

from retomaton_dist.engine.mixture import TextExpert
from retomaton_dist.errors import BadInput
from retomaton_dist.methods.adaptive import (
    AdaptiveLambda,
    KnnLmLambda,
    SuffixAloneLambda,
    SuffixLambda,
)
from retomaton_dist.methods.adaptret import AdaptRet
from retomaton_dist.methods.knnlm import KnnLm, KnnLmWide
from retomaton_dist.methods.lm import Lm, Ngram
from retomaton_dist.methods.method import Method
from retomaton_dist.methods.online import Online, OnlineLambda
from retomaton_dist.methods.retomaton import PointerWeight, Retomaton
from retomaton_dist.methods.suffix import RestartAtRandom, RestartBySuffix, Suffix

NGRAM, CACHE = TextExpert.NGRAM, TextExpert.CACHE
BOTH = NGRAM, CACHE

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Lm(),
        KnnLm(),
        KnnLmWide(),
        KnnLmLambda(),
        AdaptRet(),
        Suffix(),
        SuffixAloneLambda(),
        Retomaton(),
        PointerWeight(),
        AdaptiveLambda(),
        RestartBySuffix(),
        RestartAtRandom(),
        SuffixLambda(),
        Ngram(),
        Online(Lm(), (CACHE,), "lm"),
        Online(Lm(), (NGRAM,), "lm"),
        Online(Lm(), BOTH, "lm+cache"),
        Online(KnnLmWide(), BOTH, "lm+ngram+cache"),
        Online(Suffix(), BOTH, "lm+ngram+cache"),
        Online(Retomaton(), BOTH, "knnlm+ngram+cache"),
        Online(RestartBySuffix(), BOTH, "suffix+ngram+cache"),
        OnlineLambda(Lm(), (CACHE,), "lm"),
        OnlineLambda(Lm(), BOTH, "lm+cache+lambda"),
        OnlineLambda(KnnLmWide(), BOTH, "lm+ngram+cache+lambda"),
        OnlineLambda(Suffix(), BOTH, "lm+ngram+cache+lambda"),
        OnlineLambda(Retomaton(), BOTH, "knnlm+ngram+cache+lambda"),
        OnlineLambda(RestartBySuffix(), BOTH, "suffix+ngram+cache+lambda"),
    )
}


def choose_methods(names: str | None) -> list[Method]:
    """The methods of a comma-separated list; None: all of them. Their order is the registry's."""
    if names is None:
        return list(METHODS.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in METHODS]
    if unknown or not wanted:
        shown = unknown[0] if unknown else names
        raise BadInput(f"--methods {shown}: choose from {', '.join(METHODS)}")
    return [method for name, method in METHODS.items() if name in wanted]
