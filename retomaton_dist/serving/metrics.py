"""What the server counts, for Prometheus."""

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.generation.decoding import Effort

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self.requests = Counter(
            "retomaton_requests", "Answers by route and status", ["route", "status"],
            registry=registry,
        )  # fmt: skip
        self.latency = Histogram(
            "retomaton_request_seconds", "Time to the whole answer", ["route"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.first_token = Histogram(
            "retomaton_first_token_seconds", "Time to a text's first new token, waiting included",
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        counters = {
            "prompt_tokens": "Tokens of prompts",
            "new_tokens": "Tokens that were generated",
            "scored_positions": "Tokens that were generated or scored",
            "searched_positions": "Those of them that the walk searched at",
            "searches": "Searches, also for prompts and ahead of need",
            "drafted_tokens": "Tokens that were guessed ahead",
            "accepted_tokens": "Those of them that stood",
            "texts": "Texts that were finished",
            "texts_worse_than_lm": "Texts that were less probable to the mixture than to the LM",
            "cancelled": "Requests whose clients went away, or that took too long",
        }
        self._counters = {
            name: Counter(f"retomaton_{name}", about, registry=registry)
            for name, about in counters.items()
        }
        self.waiting = Gauge("retomaton_waiting_texts", "Texts without a row", registry=registry)
        self.running = Gauge("retomaton_running_texts", "Texts with a row", registry=registry)
        self._foss = Gauge("retomaton_foss", "Fraction of saved searches", registry=registry)
        self._positions = self._searched = 0

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter."""
        self._counters[name].inc(amount)

    def spent(self, before: Effort, now: Effort) -> None:
        """Take note of what a step took."""
        self.count("new_tokens", now.tokens - before.tokens)
        self.count("searches", now.searches - before.searches)
        self.count("drafted_tokens", now.drafted - before.drafted)
        self.count("accepted_tokens", now.accepted - before.accepted)

    def finished(self, scores: TokenScores) -> None:
        """Take note of a text that ended."""
        self.count("texts")
        if not len(scores.tokens):
            return
        self._positions += len(scores.tokens)
        self._searched += int(scores.searched.sum())
        self.count("scored_positions", len(scores.tokens))
        self.count("searched_positions", int(scores.searched.sum()))
        self._foss.set(1 - self._searched / self._positions)
        self.count("texts_worse_than_lm", int(np.sum(scores.log_p) < np.sum(scores.log_lm)))

    def page(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)
