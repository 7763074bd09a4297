"""`retomaton score`: perplexity of documents under a store's automaton."""

import math

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, readable_store

HEAD = ("perplexity", "LM alone", "FoSS", "tokens")


def run(call: Invocation) -> int:
    """Print a line per document as it is scored, then one for all."""
    settings, chosen = call.group("score"), call.group("load")
    store = readable_store(call, "--text", settings.text)
    from retomaton_dist.api.score import load_with, score_files

    lm = load_with(store, chosen)
    documents = score_files(lm, settings)
    print(lm)
    print("".join(f"{name:>12}" for name in HEAD) + "  document")
    tokens = searches = 0
    log_p = log_lm = 0.0
    for document in documents:
        scored = document.scored
        _show(
            scored.perplexity,
            scored.perplexity_of_lm,
            scored.foss,
            len(scored.tokens),
            document.name,
        )
        tokens += len(scored.tokens)
        searches += int(scored.searched.sum())
        log_p += scored.total
        log_lm += float(scored.log_lm.astype("float64").sum())
    whole = math.exp(-log_p / tokens), math.exp(-log_lm / tokens)
    _show(*whole, 1 - searches / tokens, tokens, "in all")
    if settings.out:
        print(f"\ntokens: {settings.out}")
    return 0


def _show(perplexity: float, lm: float, foss: float, tokens: int, name: str) -> None:
    print(f"{perplexity:12.2f}{lm:12.2f}{foss:12.3f}{tokens:12,}  {name}")


COMMAND = Command(
    name="score",
    summary="Score texts: perplexity by document, with the automaton and without.",
    groups=("score", "load"),
    arguments=add_store,
    run=run,
    examples="""
        with the newest calibration of the store (`retomaton calibrate` makes one):
          retomaton score law.store --text law/test.en

        every token's numbers, and fewer searches:
          retomaton score law.store --text law/test.en --foss 0.8 --out tokens.parquet

        without a calibration, constants given:
          retomaton score law.store --text a.txt --method retomaton --lambda 0.4 \\
              --knn-temperature 20
    """,
)
