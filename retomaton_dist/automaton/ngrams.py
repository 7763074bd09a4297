"""An n-gram model of a corpus: interpolated modified Kneser-Ney over the suffix index.

The probability of a token w after a context h of m symbols (`ngram_counts` says what these are) is

    p(w | h) = (a(h w) - D(a) + g(h) p(w | h without its oldest symbol)) / total(h)

with the counts a of `ngram_counts`, their sum over all w, discounts D of counts 1, 2 and more for
each m, and g(h) the sum of what was taken off. It begins with 1 / V, goes on with m = 0, and ends
with the longest context of at most n - 1 symbols that the corpus has.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.contexts import NONE
from retomaton_dist.automaton.ngram_counts import SCANNED, NodeCounter, node_key
from retomaton_dist.automaton.suffixes import (
    ROWS,
    ContextColumns,
    NarrowScratch,
    Suffixes,
    make_scratch,
    narrow,
)
from retomaton_dist.automaton.tables import FREE, place_of, table_size
from retomaton_dist.codec.codec import read_only
from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.errors import BadInput
from retomaton_dist.storage.automaton import id_type
from retomaton_dist.storage.ngrams import COUNTED, NGRAMS, NODE

# Discounts of counts 1, 2 and more, where too few n-grams are counted to say.
FALLBACK = (0.5, 1.0, 1.5)
# Of a discount: where hardly anything is taken off, tokens that are new get next to nothing.
LEAST = 0.01

Floats = NDArray[np.float64]


class NGramColumns(NamedTuple):
    """By place: `followers`, and `shared`, how many symbols the contexts of it and the last share.

    `nodes` [nodes, NODE] ascend by key, `lists` [followers, 2] are theirs (`storage.ngrams`).
    """

    followers: NDArray[np.int32]
    shared: NDArray[np.uint8]
    nodes: NDArray[np.int64]
    lists: Ids


class NGramArrays(NamedTuple):
    """What kernels need of a model; `discounts` [order, 3] are by the context's length."""

    contexts: ContextColumns
    columns: NGramColumns
    discounts: Floats
    unigrams: Floats
    scanned: Whole


@dataclass(frozen=True)
class NGrams:
    """An n-gram model of a corpus.

    `unigrams` are the counts of tokens, `counted` [order, 4] is how many n-grams of each length
    have the counts 1 to 4; contexts of at most `scanned` places have no node.
    """

    suffixes: Suffixes
    columns: NGramColumns
    unigrams: NDArray[np.int64]
    counted: NDArray[np.int64]
    scanned: int

    def __post_init__(self) -> None:
        # Kernels are compiled once for read-only arrays, which is what maps are.
        frozen = NGramColumns(*(read_only(column) for column in self.columns))
        object.__setattr__(self, "columns", frozen)

    @classmethod
    def open(cls, folder: Path, suffixes: Suffixes) -> "NGrams":
        """Map a model's folder; truncated or foreign ones, or of other entries, are refused."""
        files = NGRAMS.open(folder)
        if (files.shape.entries, files.shape.vocabulary) != (suffixes.entries, suffixes.vocabulary):
            raise BadInput(f"{folder} was made from another suffix index")
        named = {name: files.column(name) for name in NGramColumns._fields}
        named["nodes"] = named["nodes"].reshape(-1, NODE)
        named["lists"] = named["lists"].reshape(-1, 2)
        counted = np.array(files.shape.counted, np.int64)
        unigrams = files.column("unigrams")
        return cls(suffixes, NGramColumns(**named), unigrams, counted, files.shape.scanned)

    @classmethod
    def of(
        cls, suffixes: Suffixes, values: NDArray[np.int32], order: int, scanned: int = SCANNED
    ) -> "NGrams":
        """Make one in memory, of a suffix index and the values of its entries."""
        check_order(order, suffixes.longest)
        counter = NodeCounter(suffixes, values.__getitem__, order, scanned)
        blocks = list(counter.blocks(0, suffixes.entries))
        parts = zip(*blocks, strict=True)
        followers, shared, nodes, lists = (np.concatenate(part) for part in parts)
        nodes = nodes[np.argsort(nodes[:, 0])]
        columns = NGramColumns(followers, shared, nodes, lists.astype(id_type(len(followers))))
        counted = with_unigrams(counter.counted, counter.unigrams)
        return cls(suffixes, columns, counter.unigrams.copy(), counted, scanned)

    @property
    def order(self) -> int:
        """n: contexts of up to n - 1 symbols are told apart."""
        return len(self.counted)

    @property
    def vocabulary(self) -> int:
        """V."""
        return len(self.unigrams)

    def __repr__(self) -> str:
        return f"<NGrams: order {self.order}, {self.suffixes.entries:,} entries>"

    def log_p(
        self, recent: NDArray[np.int32], targets: NDArray[np.int32]
    ) -> tuple[Floats, NDArray[np.int32]]:
        """Log-probabilities of targets [rows], and the lengths of the contexts that are known.

        A row of `recent` [rows, at least order - 1] holds the tokens before the target in its
        document, the latest first, and -1 where there are none. A length counts the symbols of
        the longest context that the corpus has: where the document begins is one.
        """
        rows, wanted = self._cut(recent), np.ascontiguousarray(targets, np.int64)
        if wanted.shape != rows.shape[:1]:
            raise BadInput(f"{len(wanted):,} targets for {len(rows):,} rows of recent tokens")
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self.vocabulary:
            raise BadInput(f"a target is outside 0..{self.vocabulary - 1}")
        p, lengths = np.empty(len(rows)), np.empty(len(rows), np.int32)
        target_rows(self._arrays, rows, wanted, p, lengths)
        return np.log(p), lengths

    def distributions(self, recent: NDArray[np.int32]) -> Floats:
        """The probabilities of all tokens [rows, V] after such rows: equal to those of `log_p`."""
        rows = self._cut(recent)
        p = np.empty((len(rows), self.vocabulary))
        whole_rows(self._arrays, rows, p)
        return p

    def _cut(self, recent: NDArray[np.int32]) -> NDArray[np.int32]:
        needed = self.order - 1
        if recent.ndim != 2 or recent.shape[1] < needed:
            raise BadInput(f"recent tokens of shape {recent.shape}: rows of {needed} needed")
        return np.ascontiguousarray(recent[:, :needed], np.int32)

    @cached_property
    def _arrays(self) -> NGramArrays:
        discounts = np.array([discounts_of(counts) for counts in self.counted.tolist()])
        lower = unigram_p(self.unigrams, discounts[0])
        frozen = read_only(discounts), read_only(lower)
        return NGramArrays(self.suffixes.columns, self.columns, *frozen, self.scanned)


def check_order(order: int, longest: int) -> None:
    """Refuse an order that a suffix index of contexts of up to `longest` tokens does not allow."""
    if not 2 <= order <= longest + 1:
        raise BadInput(
            f"order {order}: a suffix index of up to {longest} tokens allows 2 to {longest + 1}; "
            f"`retomaton suffix STORE --longest {max(order - 1, 1)} --name NAME` makes a longer one"
        )


def with_unigrams(counted: NDArray[np.int64], unigrams: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many n-grams have the counts 1 to 4, of length 1 too."""
    numbers = np.bincount(np.minimum(unigrams, COUNTED + 1), minlength=COUNTED + 1)
    return np.concatenate([[numbers[1 : COUNTED + 1]], counted[1:]])


def discounts_of(counts: list[int]) -> tuple[float, ...]:
    """Discounts of counts 1, 2 and more, from how many n-grams have the counts 1 to 4.

    Chen and Goodman's, or the usual ones where those are not to be had.
    """
    if not all(counts[:3]):
        return FALLBACK
    ratio = counts[0] / (counts[0] + 2 * counts[1])
    found = tuple(
        number - (number + 1) * ratio * counts[number] / counts[number - 1] for number in (1, 2, 3)
    )
    fits = all(LEAST <= discount <= number for number, discount in enumerate(found, 1))
    return found if fits else FALLBACK


def unigram_p(counts: NDArray[np.int64], discounts: Floats) -> Floats:
    """Probabilities after the context without symbols."""
    off = np.where(counts > 0, discounts[np.clip(counts, 1, 3) - 1], 0.0)
    p: Floats = (counts - off + off.sum() / len(counts)) / counts.sum()
    return p


class Followers(NamedTuple):
    """Room for counting what follows a node: a hash table of tokens, and which cells are taken."""

    tokens: NDArray[np.int64]
    counts: NDArray[np.int64]
    children: NDArray[np.int64]
    cells: NDArray[np.int64]


@compiled
def make_followers(scanned: Whole) -> Followers:
    """Room for one call."""
    size = table_size(scanned)
    return Followers(
        np.full(size, FREE, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(scanned, np.int64),
    )


@compiled
def target_rows(
    model: NGramArrays,
    recent: NDArray[np.int32],
    targets: NDArray[np.int64],
    p: Floats,
    lengths: NDArray[np.int32],
) -> None:
    """Probabilities of targets, and lengths of known contexts."""
    scratch, room = make_scratch(recent.shape[1]), make_followers(model.scanned)
    only = np.empty(1)
    for first in range(0, recent.shape[0], ROWS):
        group, known = recent[first : first + ROWS], lengths[first : first + ROWS]
        narrow(model.contexts, group, NONE, scratch, known)
        for row in range(group.shape[0]):
            target = targets[first + row]
            only[0] = 0.0
            scale = add_levels(model, scratch, row, np.int64(known[row]), target, room, only)
            p[first + row] = only[0] + scale * model.unigrams[target]


@compiled
def whole_rows(model: NGramArrays, recent: NDArray[np.int32], p: Floats) -> None:
    """Probabilities of all tokens."""
    scratch, room = make_scratch(recent.shape[1]), make_followers(model.scanned)
    lengths = np.empty(ROWS, np.int32)
    for first in range(0, recent.shape[0], ROWS):
        group = recent[first : first + ROWS]
        narrow(model.contexts, group, NONE, scratch, lengths[: group.shape[0]])
        for row in range(group.shape[0]):
            whole = p[first + row]
            whole[:] = 0.0
            scale = add_levels(model, scratch, row, np.int64(lengths[row]), -1, room, whole)
            for token in range(whole.shape[0]):
                whole[token] += scale * model.unigrams[token]


@compiled
def add_levels(
    model: NGramArrays,
    scratch: NarrowScratch,
    row: Whole,
    length: Whole,
    target: Whole,
    room: Followers,
    p: Floats,
) -> float:
    """Add what contexts of `length` to 1 symbols say; return the share of the unigrams.

    That of the target goes to p[0]; if it is negative, that of every token to its place.
    """
    scale = 1.0
    for depth in range(length, 0, -1):
        low, high = scratch.ranges[row, depth]
        if high - low <= model.scanned:
            scale *= add_scanned(model, low, high, depth, target, scale, room, p)
        else:
            scale *= add_listed(model, low, depth, target, scale, p)
    return scale


@compiled
def discount(model: NGramArrays, depth: Whole, count: Whole) -> float:
    """What is taken off a count."""
    off: float = model.discounts[depth, max(min(count, 3), 1) - 1]
    return off


@compiled
def add_scanned(
    model: NGramArrays,
    low: Whole,
    high: Whole,
    depth: Whole,
    target: Whole,
    scale: float,
    room: Followers,
    p: Floats,
) -> float:
    """Count the followers of a node of few places; return the share of shorter contexts."""
    columns, size = model.columns, room.tokens.shape[0]
    taken, child, total = 0, 0, 0
    for place in range(low, high):
        # The first place of a child shares no more than the node's context with the last.
        child += columns.shared[place] <= depth
        token = np.int64(columns.followers[place])
        cell = place_of(room.tokens, size, token)
        if room.tokens[cell] == FREE:
            room.tokens[cell], room.counts[cell], room.children[cell] = token, 0, -1
            room.cells[taken] = cell
            taken += 1
        if room.children[cell] != child:
            room.children[cell] = child
            room.counts[cell] += 1
            total += 1
    left = 0.0
    for cell in room.cells[:taken]:
        token, count = room.tokens[cell], room.counts[cell]
        room.tokens[cell] = FREE
        off = discount(model, depth, count)
        left += off
        if target < 0:
            if 0 <= token < p.shape[0]:
                p[token] += scale * ((count - off) / total)
        elif token == target:
            p[0] += scale * ((count - off) / total)
    return left / total


@compiled
def add_listed(
    model: NGramArrays, low: Whole, depth: Whole, target: Whole, scale: float, p: Floats
) -> float:
    """Look the followers of a node up; return the share of shorter contexts."""
    nodes, lists = model.columns.nodes, model.columns.lists
    row = first_at_least(nodes, 0, nodes.shape[0], node_key(low, depth))
    if row == nodes.shape[0] or nodes[row, 0] != node_key(low, depth):
        return 1.0
    first, total, ones, twos, more = nodes[row, 1:]
    last = first + ones + twos + more
    if first < 0 or last > lists.shape[0] or total < 1:
        return 1.0
    if target < 0:
        for i in range(first, last):
            token, count = np.int64(lists[i, 0]), np.int64(lists[i, 1])
            if 0 <= token < p.shape[0]:
                p[token] += scale * ((count - discount(model, depth, count)) / total)
    else:
        place = first_at_least(lists, first, last, target)
        if place < last and np.int64(lists[place, 0]) == target:
            count = np.int64(lists[place, 1])
            p[0] += scale * ((count - discount(model, depth, count)) / total)
    off = model.discounts[depth]
    left: float = (ones * off[0] + twos * off[1] + more * off[2]) / total
    return left


@compiled
def first_at_least(rows: Ids, low: Whole, high: Whole, wanted: Whole) -> Whole:
    """The first of the rows low..high-1, ascending by their first number, that is not below."""
    while low < high:
        middle = (low + high) >> 1
        if np.int64(rows[middle, 0]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low
