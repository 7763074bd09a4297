"""The walk, slow and obvious: sets, dicts and loops, one class per preset. No kernel is used."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from retomaton_dist.settings import WalkSettings

END = -1


@dataclass
class Corpus:
    """Entries as lists: the state, the value and the pointer (-1: none) of each."""

    states: list[int]
    values: list[int]
    pointers: list[int]

    def members(self, state):
        return [entry for entry, found in enumerate(self.states) if found == state]

    @property
    def unclustered(self):
        """Whether no state has more than one member."""
        return len(set(self.states)) == len(self.states)

    def documents(self):
        """Values of documents that lie one after the other, each up to where a pointer ends."""
        found = [[]]
        for value, pointer in zip(self.values, self.pointers, strict=True):
            found[-1].append(value)
            if pointer == END:
                found.append([])
        return [document for document in found if document]


@dataclass
class Step:
    """What one step came to: candidates as (entry, distance, in P), S, n, and if it searched."""

    candidates: list[tuple[int, float, bool]]
    states: set[int]
    found: int
    searched: bool
    matched: int = 0
    states_capped: bool = False
    candidates_capped: bool = False

    def multiset(self):
        return Counter((entry, pointed) for entry, _, pointed in self.candidates)

    def distribution(self, values, temperature, pointer_weight):
        """p_auto, a dict of tokens; nearest first so that nothing underflows."""
        nearest = min((distance for _, distance, _ in self.candidates), default=0.0)
        weights = defaultdict(float)
        for entry, distance, pointed in self.candidates:
            weight = math.exp(-(distance - nearest) / temperature)
            weights[values[entry]] += weight * (pointer_weight if pointed else 1.0)
        total = sum(weights.values())
        return {value: weight / total for value, weight in weights.items()}


@dataclass
class PaperLane:
    """`design.md`'s pseudo-code, line by line, with every setting of it."""

    corpus: Corpus
    settings: WalkSettings
    tau: float
    document: int = 0
    sigma: float = math.inf
    share: float = 1.0
    t: int = 0
    states: set[int] = field(default_factory=set)
    last: list[tuple[int, float, bool]] = field(default_factory=list)

    def step(self, token, distances, neighbours, suffix=((), 0), draw=0.0):
        """`suffix` are the entries that follow the longest one, and its length."""
        corpus, settings = self.corpus, self.settings
        alike = [(e, d) for e, d, _ in self.last if corpus.values[e] == token]
        if settings.follow == "members":
            members = [e for state in self.states for e in corpus.members(state)]
            followed = [e for e in members if corpus.values[e] == token]
        else:
            followed = [e for e, _ in alike]
        reached = [corpus.pointers[e] for e in followed if corpus.pointers[e] != END]
        pointers = self._ordered(reached, alike)
        counted = Counter(corpus.states[p] for p in pointers)
        ranking = sorted(counted, key=lambda state: (-counted[state], state))
        kept = ranking[: settings.max_states]
        found = len(kept) if settings.count == "states" else len(alike)
        following, length = suffix
        thin = found < self.tau
        searched = thin and length < self.sigma and draw < self.share
        walked = pointers + self._rest(kept, pointers)
        pointed = set(pointers)
        restart = neighbours if searched else following if thin else []
        listed = [e for e in restart if e != END]
        chosen = listed + walked[: settings.max_knns]
        others = self._beside(kept, listed, walked[: settings.max_knns])
        left = max(settings.max_knns - len(walked), 0)
        chosen += others[:left]
        if settings.duplicates == "drop":
            chosen = list(dict.fromkeys(chosen))
        self.last = [(e, float(distances[e]), e in pointed) for e in chosen]
        self.states = set(kept) | {corpus.states[e] for e in listed}
        self.t += 1
        return Step(
            self.last,
            self.states,
            found,
            searched,
            length if thin and not searched else 0,
            len(kept) < len(ranking),
            len(walked) > settings.max_knns or len(others) > left,
        )

    def _ordered(self, reached, alike):
        best = {}
        for entry, distance in alike:
            pointer = self.corpus.pointers[entry]
            best[pointer] = min(best.get(pointer, math.inf), distance)
        if self.settings.members == "hashed":
            return sorted(set(reached), key=lambda p: (best.get(p, math.inf), self._hash(p)))
        if self.settings.follow == "members":
            return sorted(set(reached), key=lambda p: (best.get(p, math.inf), p))
        repeated = [(d, self.corpus.pointers[e]) for e, d in alike]
        return [pointer for _, pointer in sorted(repeated) if pointer != END]

    def _rest(self, kept, pointers):
        if self.settings.members == "listed" and self.corpus.unclustered:
            return []
        if self.settings.members == "listed":
            return [e for state in kept for e in self.corpus.members(state)]
        members = [e for state in kept for e in self.corpus.members(state)]
        others = [e for e in members if e not in set(pointers)]
        return sorted(others, key=self._hash)

    def _beside(self, kept, listed, walked):
        """What else a restart adds: the members of states that only neighbours are in."""
        if self.settings.restart == "neighbours":
            return []
        known = {*listed, *(walked if self.settings.duplicates == "drop" else ())}
        states = {self.corpus.states[e] for e in listed} - set(kept)
        members = [e for state in states for e in self.corpus.members(state)]
        return sorted((e for e in members if e not in known), key=self._hash)

    def _hash(self, entry):
        return hashed(self.settings.seed, self.document, self.t, entry)


@dataclass
class ReferenceLane:
    """The authors' code as `preset reference` takes it over, written independently.

    They leave open how equal distances and equal counts are ordered: the lower entry, the lower
    state. Without clustering they have no members to look up: pointers stay as they are.
    """

    corpus: Corpus
    k: int
    max_knns: int
    min_knns: float
    clustered: bool = True
    knns: list[tuple[float, int]] = field(default_factory=list)

    def step(self, token, distances, neighbours):
        corpus = self.corpus
        alike = [(d, corpus.pointers[e]) for d, e in self.knns if corpus.values[e] == token]
        search = len(alike) < self.min_knns
        pointers = [pointer for _, pointer in sorted(alike) if pointer != END]
        extended = pointers[: self.max_knns]
        if self.clustered and 0 < len(pointers) < self.max_knns:
            extended = (pointers + self._members(pointers))[: self.max_knns]
        candidates = [e for e in neighbours if e != END] + extended if search else extended
        self.knns = [(float(distances[e]), e) for e in candidates]
        return Counter(candidates), len(alike), search

    def _members(self, pointers):
        counts = Counter(self.corpus.states[p] for p in pointers)
        clusters = sorted(counts, key=lambda state: (-counts[state], state))
        return [e for state in clusters for e in self.corpus.members(state)]


@dataclass
class EquationsLane:
    """The paper's equations, set by set: nothing is capped, and every entry counts once."""

    corpus: Corpus
    tau: float
    states: set[int] = field(default_factory=set)

    def step(self, token, neighbours):
        """The candidates, S, and whether it searched."""
        corpus = self.corpus
        reached = set()
        for entry, state in enumerate(corpus.states):
            pointer = corpus.pointers[entry]
            if state in self.states and corpus.values[entry] == token and pointer != END:
                reached.add(corpus.states[pointer])
        search = len(reached) < self.tau
        found = {corpus.states[e] for e in neighbours if e != END} if search else set()
        self.states = reached | found
        candidates = {e for e, state in enumerate(corpus.states) if state in self.states}
        return candidates, self.states, search


def hashed(seed, document, t, entry):
    """hash(seed, document, t, entry) with whole numbers of any size, cut to their bits."""
    word = _mixed(seed)
    word = _mixed(word ^ document)
    word = _mixed(word ^ t)
    bits = (entry ^ (word >> 32)) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return bits ^ (bits >> 16)


def _mixed(word):
    ones = (1 << 64) - 1
    word = (word + 0x9E3779B97F4A7C15) & ones
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & ones
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & ones
    return word ^ (word >> 31)
