"""A text that is asked for: its prompt, how its tokens are chosen, and when it ends."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.generator import Tokens
from retomaton_dist.generation.sampling import SamplingParams

Decode = Callable[[Sequence[int]], str]
Alternatives = list[tuple[int, float]]
"""The most probable tokens at a position with their log-probabilities, the likeliest first."""


@dataclass(frozen=True)
class Ending:
    """When a text ends: after so many new tokens, with an `eos`, or with a string of `stop`.

    `also` is asked of every text, prompt included, whether it ends for another reason.
    """

    max_new_tokens: int
    eos: tuple[int, ...]
    stop: tuple[str, ...]
    decode: Decode
    also: Callable[[Tokens], bool] | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 0:
            raise BadInput(f"max_new_tokens = {self.max_new_tokens}: must be 0 or more")
        if "" in self.stop:
            raise BadInput("stop: an empty string is everywhere; leave it out")

    def reason(self, text: Tokens, prompt: int) -> str | None:
        """Why a text whose first `prompt` tokens are given ends here; None: it goes on."""
        if int(text[-1]) in self.eos:
            return "eos"
        if self.stop and self.stops(text[prompt:]):
            return "stop"
        if self.also is not None and self.also(text):
            return "asked"
        return "length" if len(text) - prompt >= self.max_new_tokens else None

    def stops(self, tokens: Tokens) -> bool:
        """Whether a stop string came up with the last token."""
        # A token has a byte at least, so that none further back can matter.
        tail = max(len(word.encode()) for word in self.stop)
        text = self.decode(tokens[-tail - 1 :].tolist())
        return any(word in text for word in self.stop)


@dataclass(frozen=True)
class GrownText:
    """New tokens of a prompt's copy: all of a text that ended, or the newest one of one that grows.

    `ending` is "eos", "stop", "length" or "asked"; "" while it grows. If the prompt was to be
    scored, a text that ended has its tokens in front. `alternatives` has a list per token of
    `scores` if they were asked for.
    """

    prompt: int
    copy: int
    scores: TokenScores
    ending: str = ""
    alternatives: tuple[Alternatives, ...] = ()


Watch = Callable[[GrownText], None]


@dataclass(frozen=True, eq=False)
class TextRequest:
    """A prompt, and `copies` texts that follow it, numbered from `first_copy` on.

    `number` is the caller's name for it. With `score_prompt` the tokens of the prompt are scored,
    too; so many `alternatives` are noted at every token. `watch` is told of every new token.
    """

    number: int
    prompt: Tokens
    ending: Ending
    choosing: SamplingParams
    copies: int = 1
    first_copy: int = 0
    score_prompt: bool = False
    alternatives: int = 0
    watch: Watch | None = None


def text_id(prompt: Tokens, copy: int) -> np.uint64:
    """Tells texts apart: by their prompts, so that company does not matter, and their copies."""
    return np.uint64(zlib.crc32(prompt.tobytes()) << 32 | copy)
