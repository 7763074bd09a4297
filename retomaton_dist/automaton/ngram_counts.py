"""Counting what follows contexts, in one pass over the places of a suffix index.

The symbols of a context are the tokens before an entry, the latest first, and where its document
begins NONE, once. A node is a context: the places whose first symbols it is. The count of a token
in a node is Kneser and Ney's: of how many of the node's children (contexts of one symbol more) it
is a follower; of nodes that have no children, at how many places. Nodes of many places are listed;
what follows the others is soon counted where it is asked for.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.arrays import Ids
from retomaton_dist.automaton.contexts import NONE, Before, token_at
from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.compiled import Whole, compiled
from retomaton_dist.errors import BadInput
from retomaton_dist.storage.ngrams import COUNTED, DEPTH_BITS, NODE

# Places that are looked at together.
BLOCK = 1 << 18
# Nodes of more places are listed.
SCANNED = 64

Lists = NDArray[np.int64]


class CountedBlock(NamedTuple):
    """What was found at some places, and the nodes that end there.

    `nodes` [nodes, NODE] are in any order; the `lists` [followers, 2] of all blocks are one.
    """

    followers: NDArray[np.int32]
    shared: NDArray[np.uint8]
    nodes: NDArray[np.int64]
    lists: Lists


class OpenNodes(NamedTuple):
    """The nodes that a place lies in, by depth: the number of symbols of their contexts.

    `counts` [order, vocabulary] are those of followers so far, which `touched` names, `sizes` of
    each depth; `opened` is a node's first place, depth[0] the deepest node's depth. Of nodes that
    have ended, `counted` [order, COUNTED] says how many followers had the counts 1 to COUNTED.
    """

    counts: NDArray[np.int64]
    touched: NDArray[np.int32]
    sizes: NDArray[np.int64]
    opened: NDArray[np.int64]
    depth: NDArray[np.int64]
    counted: NDArray[np.int64]


class NodeCounter:
    """Counts places first..last-1 of a suffix index, which hold all contexts of some last tokens.

    `values` gives the values of some entries.
    """

    def __init__(
        self,
        suffixes: Suffixes,
        values: Callable[[Ids], NDArray[np.int32]],
        order: int,
        scanned: int = SCANNED,
    ) -> None:
        self._suffixes, self._values, self._scanned = suffixes, values, scanned
        self._vocabulary = suffixes.vocabulary
        self._open = OpenNodes(
            counts=np.zeros((order, self._vocabulary), np.int64),
            touched=np.zeros((order, self._vocabulary), np.int32),
            sizes=np.zeros(order, np.int64),
            opened=np.zeros(order, np.int64),
            depth=np.zeros(1, np.int64),
            counted=np.zeros((order, COUNTED), np.int64),
        )

    @property
    def unigrams(self) -> NDArray[np.int64]:
        """Counts of the context without symbols, so far."""
        counts: NDArray[np.int64] = self._open.counts[0]
        return counts

    @property
    def counted(self) -> NDArray[np.int64]:
        """How many n-grams have the counts 1 to 4, by their length; of length 1, none yet."""
        return self._open.counted

    def blocks(self, first: int, last: int) -> Iterator[CountedBlock]:
        """Count the places; offsets of nodes are into the lists of these blocks."""
        columns, begun, offset = self._suffixes.columns, first, 0
        deepest = len(self._open.sizes) - 1
        previous = np.int64(-1)
        while begun < last:
            places = range(begun, min(begun + BLOCK, last))
            entries = columns.order[places.start : places.stop]
            followers = self._values(entries)
            if followers.min() < 0 or followers.max() >= self._vocabulary:
                raise BadInput(f"a token of the corpus is outside 0..{self._vocabulary - 1}")
            shared, lengths = np.empty((2, len(places)), np.uint8)
            compare_contexts(columns.before, entries, previous, deepest, shared, lengths)
            room = deepest * (len(places) + self._vocabulary)
            nodes = np.empty((deepest * (len(places) // self._scanned + 2), NODE), np.int64)
            lists = np.empty((room, 2), np.int64)
            used = np.zeros(2, np.int64)
            here = followers, shared, lengths
            count_places(self._open, *here, places.start, self._scanned, nodes, lists, used)
            if places.stop == last:
                close_nodes(self._open, 0, last, self._scanned, nodes, lists, used)
            nodes = nodes[: used[0]]
            nodes[:, 1] += offset
            yield CountedBlock(followers, shared, nodes, lists[: used[1]])
            begun, offset = places.stop, offset + int(used[1])
            previous = np.int64(entries[-1])


@compiled
def compare_contexts(
    before: Before,
    entries: Ids,
    previous: Whole,
    deepest: Whole,
    shared: NDArray[np.uint8],
    lengths: NDArray[np.uint8],
) -> None:
    """Symbols of each entry's context, and how many of them the entry before it shares.

    Both count at most `deepest`; the first is compared with `previous`, unless that is negative.
    """
    for i in range(entries.shape[0]):
        entry = np.int64(entries[i])
        depth: Whole = 0
        alike: Whole = 0
        symbol: Whole = 0
        while depth < deepest and symbol != NONE:
            symbol = token_at(before, entry, depth)
            if previous >= 0 and alike == depth:
                alike += token_at(before, previous, depth) == symbol
            depth += 1
        shared[i] = alike
        lengths[i] = depth
        previous = entry


@compiled
def count_places(
    nodes: OpenNodes,
    followers: NDArray[np.int32],
    shared: NDArray[np.uint8],
    lengths: NDArray[np.uint8],
    first: Whole,
    scanned: Whole,
    listed: NDArray[np.int64],
    lists: Lists,
    used: NDArray[np.int64],
) -> None:
    """Count the follower of each place in the nodes that it lies in; list those that end."""
    for i in range(followers.shape[0]):
        alike = np.int64(shared[i])
        close_nodes(nodes, alike, first + i, scanned, listed, lists, used)
        deepest = np.int64(lengths[i])
        nodes.opened[alike + 1 : deepest + 1] = first + i
        nodes.depth[0] = deepest
        # A child counts once, when it has the follower for the first time.
        token, depth = followers[i], deepest
        while depth >= 0:
            nodes.counts[depth, token] += 1
            if nodes.counts[depth, token] > 1:
                break
            nodes.touched[depth, nodes.sizes[depth]] = token
            nodes.sizes[depth] += 1
            depth -= 1


@compiled
def close_nodes(
    nodes: OpenNodes,
    kept: Whole,
    end: Whole,
    scanned: Whole,
    listed: NDArray[np.int64],
    lists: Lists,
    used: NDArray[np.int64],
) -> None:
    """End the nodes that are deeper than `kept` before place `end`; the large ones are listed.

    `used` are the rows of `listed` and of `lists` that are taken.
    """
    for depth in range(nodes.depth[0], kept, -1):
        tokens, counts = nodes.touched[depth, : nodes.sizes[depth]], nodes.counts[depth]
        large, row = end - nodes.opened[depth] > scanned, listed[used[0]]
        if large:
            tokens.sort()
            row[0] = node_key(nodes.opened[depth], depth)
            row[1] = used[1]
            row[2:] = 0
            used[0] += 1
        for token in tokens:
            count = counts[token]
            counts[token] = 0
            if count <= COUNTED:
                nodes.counted[depth, count - 1] += 1
            if large:
                row[2] += count
                row[2 + min(count, 3)] += 1
                lists[used[1], 0] = token
                lists[used[1], 1] = count
                used[1] += 1
        nodes.sizes[depth] = 0
    nodes.depth[0] = min(nodes.depth[0], kept)


@compiled
def node_key(place: Whole, depth: Whole) -> Whole:
    """What a node is found by: its first place, and the number of its context's symbols."""
    return (place << DEPTH_BITS) | depth
