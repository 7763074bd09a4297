"""The meaning of the n-gram model with plain dictionaries: KenLM's counts, Chen and Goodman's p."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

BOS = -1


@dataclass(frozen=True)
class SlowNGrams:
    """Documents as lists of tokens; with `unpredicted`, their first token is never predicted."""

    documents: list
    vocabulary: int
    order: int
    unpredicted: int = 0

    @cached_property
    def raw(self):
        """How often each n-gram of up to `order` symbols ends in a token that is predicted."""
        found = Counter()
        for document in self.documents:
            symbols = [BOS, *document]
            for place in range(1 + self.unpredicted, len(symbols)):
                for first in range(max(0, place - self.order + 1), place + 1):
                    found[tuple(symbols[first : place + 1])] += 1
        return found

    @cached_property
    def counts(self):
        """Counts of followers by context: of what stands before, unless nothing can be known."""
        before = Counter(gram[1:] for gram in self.raw if len(gram) > 1)
        counts = defaultdict(dict)
        for gram, times in self.raw.items():
            whole = len(gram) == self.order or gram[0] == BOS
            counts[gram[:-1]][gram[-1]] = times if whole else before[gram]
        return counts

    @cached_property
    def discounts(self):
        """By the context's length: what is taken off counts 1, 2 and more."""
        found = []
        for length in range(self.order):
            several = Counter(
                count
                for context, followers in self.counts.items()
                if len(context) == length
                for count in followers.values()
            )
            found.append(chen_goodman(*(several[count] for count in (1, 2, 3, 4))))
        return found

    def p(self, context):
        """Probabilities of all tokens after a context, oldest first, and how much of it is known.

        It begins with BOS if a document begins there.
        """
        context = context[len(context) - min(len(context), self.order - 1) :]
        p, known = [1 / self.vocabulary] * self.vocabulary, 0
        for length in range(len(context) + 1):
            followers = self.counts.get(tuple(context[len(context) - length :]))
            if not followers:
                break
            off = {token: self.discount(length, count) for token, count in followers.items()}
            total, left = sum(followers.values()), sum(off.values())
            p = [
                (followers.get(token, 0) - off.get(token, 0) + left * p[token]) / total
                for token in range(self.vocabulary)
            ]
            known = length
        return p, known

    def discount(self, length, count):
        return self.discounts[length][min(count, 3) - 1]


def chen_goodman(n1, n2, n3, n4):
    if n1 and n2 and n3:
        y = n1 / (n1 + 2 * n2)
        found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
        if all(0.01 <= off <= count for count, off in zip((1, 2, 3), found, strict=True)):
            return found
    return 0.5, 1.0, 1.5
