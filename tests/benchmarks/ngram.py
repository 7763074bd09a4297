"""The n-gram model: time per target and per whole distribution, room, and perplexity by order.

    python -m tests.benchmarks.ngram [--small] [--texts law.store law-test.store ...]

Times are of one thread, for 64 rows at a time, the least of several rounds, `warm` and `cold` as in
`suffixes`, whose synthetic text is used; the peer is the look-up of 1,024 entries by suffix that a
walk makes. `scanned` is the same model without lists: every context is counted where it is asked
for.

Perplexities are of real text, given as pairs of stores: a corpus with a suffix index, as
`retomaton build law.store --no-keys ...` leaves it, and the text, by `retomaton tokenize`. The
peer is an infinity-gram with sound back-off: raw counts of all contexts that the suffix index tells
apart, each interpolated with the next shorter by absolute discounting.
"""

import argparse
import time

import numpy as np

import retomaton_dist as rd
from retomaton_dist.automaton.ngrams import NGrams
from retomaton_dist.automaton.suffixes import Suffixes
from tests.benchmarks.suffixes import LONGEST, VOCABULARY, K, made, timed

ORDERS, POSITIONS = range(3, 9), 20_000


def time_look_ups(entries):
    """Print times and room at so many entries."""
    values, before, recent = made(entries)
    suffixes = Suffixes.of(before, VOCABULARY, LONGEST)
    start = time.process_time()
    model = NGrams.of(suffixes, values, 5)
    counting = time.process_time() - start
    targets = np.resize(values, len(recent))
    suffixes.look_up(recent[:64], K)
    peer = timed(lambda rows: suffixes.look_up(rows, K), recent)
    room = bytes_per_entry(model)
    print(f"{entries:>10,} entries, order 5: counted in {counting:.1f} s, {room:.1f} bytes each;"
          f" a suffix look-up takes {peer:.1f} us")  # fmt: skip
    whole = NGrams.of(suffixes, values, 5, scanned=1 << 16)
    for name, each in (("listed", model), ("scanned", whole)):
        for what, ask, some in (
            ("target", lambda rows, each=each: each.log_p(rows, targets[: len(rows)]), recent),
            ("distribution", each.distributions, recent[:512]),
        ):
            ask(some[:64])
            warm, cold = timed(ask, some), timed(ask, some[:512], cold=True, rounds=2)
            print(f"{'':>10} {name:<8} {what:<13} {warm:6.1f} us warm, {cold:6.1f} us cold:"
                  f" {warm / peer:.1f}x a suffix look-up")  # fmt: skip


def bytes_per_entry(model):
    return sum(column.nbytes for column in model.columns) / model.suffixes.entries


def recent_of(corpus, width):
    """Rows of recent tokens for every entry of a text."""
    before = corpus.before(0, corpus.entries)
    recent, known = np.full((len(before), width), -1, np.int32), np.ones(len(before), np.bool_)
    for depth in range(width):
        at = np.roll(before, depth)
        recent[known, depth] = np.where(at < -1, -2 - at, at)[known]
        known &= at >= 0
    return recent


def infinity_gram(suffixes, values, highest):
    """Raw counts at every length: no place shares a child, and no node is listed."""
    longest = NGrams.of(suffixes, values, highest)
    raw = np.bincount(values, minlength=suffixes.vocabulary)
    counted = [np.bincount(np.minimum(raw, 5), minlength=6)[1:5]]
    # The longest n-grams of a model are counted raw.
    counted += [NGrams.of(suffixes, values, order).counted[-1] for order in range(2, highest + 1)]
    columns = longest.columns._replace(
        shared=np.zeros_like(longest.columns.shared), nodes=longest.columns.nodes[:0]
    )
    return NGrams(suffixes, columns, raw, np.array(counted), suffixes.entries)


def perplexities(corpus, text):
    """Print the perplexities of a text."""
    store, held_out = rd.open(corpus), rd.open(text).store.corpus()
    suffixes, read = store.suffixes(), store.store.corpus()
    values, targets = read.values(0, read.entries), held_out.values(0, held_out.entries)
    recent = recent_of(held_out, suffixes.longest)
    some = np.linspace(0, len(targets) - 1, min(POSITIONS, len(targets))).astype(np.int64)
    print(f"{corpus}: {read.entries:,} entries, {read.vocabulary:,} tokens; {text}:"
          f" {len(targets):,}, of which every {len(targets) / len(some):.1f}th")  # fmt: skip
    known = recent[some], targets[some]
    for order in ORDERS:
        if order <= suffixes.longest + 1:
            model = NGrams.of(suffixes, values, order)
            every, same = (
                np.exp(-model.log_p(*rows)[0].mean()) for rows in ((recent, targets), known)
            )
            print(f"  order {order}  perplexity {every:7.2f}, {same:7.2f} at those positions;"
                  f" {bytes_per_entry(model):.2f} bytes per entry")  # fmt: skip
    peer = infinity_gram(suffixes, values, suffixes.longest + 1)
    found = np.exp(-peer.log_p(*known)[0].mean())
    print(f"  infinity-gram of up to {suffixes.longest} tokens: {found:.2f} at those positions")


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="no more than 10^5 entries")
    parser.add_argument("--texts", nargs="*", default=[], help="pairs of stores: corpus and text")
    arguments = parser.parse_args()
    for entries in (10**5,) if arguments.small else (10**6, 10**7):
        time_look_ups(entries)
    for corpus, text in zip(arguments.texts[::2], arguments.texts[1::2], strict=True):
        perplexities(corpus, text)


if __name__ == "__main__":
    main()
