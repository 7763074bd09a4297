"""Generating with a loaded store: what is asked for, checked, then decoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.beams import BeamSearch
from retomaton_dist.generation.decoding import Decoding, Effort
from retomaton_dist.generation.drafts import DraftSource
from retomaton_dist.generation.generator import Generator, Tokens
from retomaton_dist.generation.sampling import SamplingParams
from retomaton_dist.generation.text_request import Ending, GrownText, TextRequest, Watch
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.settings.generate import MOST_NEW_TOKENS, MOST_TEXTS

if TYPE_CHECKING:
    from retomaton_dist.generation.loaded import RetomatonLM

Prompt = str | Sequence[int]

# Texts that grow side by side unless it is said how many.
ROWS = 64


class Streamer(Protocol):
    """What transformers calls a streamer."""

    def put(self, value: Any) -> None:
        """Take token ids: first the prompt's, then those of each new token."""
        ...

    def end(self) -> None:
        """There are no more."""
        ...


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """What is asked of `generate`; the names and meanings are those of transformers.

    `stop` are strings that end a text, which they are no part of; `draft` guesses tokens ahead
    (`drafts.py`). `slide`: texts may grow longer than the model's context. No more than `batch`
    texts (64 by default) grow side by side: others wait until one has ended. Beams do not wait.
    """

    max_new_tokens: int = 64
    choosing: SamplingParams
    num_beams: int = 1
    num_return_sequences: int = 1
    stop: tuple[str, ...] = ()
    draft: DraftSource | None = None
    slide: bool = True
    batch: int = ROWS

    def __post_init__(self) -> None:
        bounds = {
            "batch": MOST_TEXTS,
            "max_new_tokens": MOST_NEW_TOKENS,
            "num_beams": MOST_TEXTS,
            "num_return_sequences": MOST_TEXTS,
        }
        for name, most in bounds.items():
            if not 1 <= getattr(self, name) <= most:
                raise BadInput(f"{name} = {getattr(self, name)}: must be 1 to {most:,}")
        if self.num_beams > 1 and self.draft is not None:
            raise BadInput("num_beams with drafting: beams are not drafted; use draft=0")
        if self.num_beams == 1 and self.num_return_sequences > 1 and not self.choosing.do_sample:
            raise BadInput(
                f"num_return_sequences = {self.num_return_sequences}: without do_sample or "
                "num_beams all would be the same text"
            )


@dataclass(frozen=True)
class Generated(TokenScores):
    """A text that was generated: what follows the prompt, token by token.

    `ending` is "eos", "stop" or "length". `effort` is what the whole call took.
    """

    prompt: str
    text: str
    prompt_tokens: Tokens
    ending: str
    effort: Effort


def generate(
    lm: "RetomatonLM",
    prompts: Sequence[Prompt],
    asked: GenerateRequest,
    streamer: Streamer | None = None,
    watch: Watch | None = None,
) -> list[Generated]:
    """Texts that follow prompts, `num_return_sequences` for each, in their order.

    `watch` is told of every token as soon as it is chosen.
    """
    if not prompts:
        return []
    encoded = [_encoded(lm, number, prompt) for number, prompt in enumerate(prompts)]
    if not asked.slide:
        _check_lengths(lm, encoded, asked.max_new_tokens)
    if streamer is not None:
        watch = streaming(streamer, encoded, asked)
    ending = Ending(asked.max_new_tokens, ends_of(lm), asked.stop, lm.tokenizer.decode)
    grown, effort = decode(lm.generator, encoded, ending, asked, watch)
    if streamer is not None:
        streamer.end()
    return [_generated(lm, encoded[text.prompt], text, asked.stop, effort) for text in grown]


def ends_of(lm: "RetomatonLM") -> tuple[int, ...]:
    """The tokens that end a text: what ends documents of the corpus, and the model's EOS."""
    ends = lm.store.stage("tokenize").config["end"], lm.tokenizer.eos
    return tuple(sorted({end for end in ends if end is not None}))


def decode(
    generator: Generator,
    prompts: list[Tokens],
    ending: Ending,
    asked: GenerateRequest,
    watch: Watch | None,
) -> tuple[list[GrownText], Effort]:
    """Decode prompts as asked."""
    copies = asked.num_return_sequences
    if asked.num_beams > 1:
        if watch is not None:
            raise BadInput("num_beams with a streamer: beams have no text before they end")
        return BeamSearch(generator, prompts, ending, asked.choosing, asked.num_beams, copies).run()
    rows = min(asked.batch, len(prompts) * copies)
    decoding = Decoding(generator, rows, asked.draft)
    requests = [
        TextRequest(
            number=number,
            prompt=prompt,
            ending=ending,
            choosing=asked.choosing,
            copies=min(rows, copies - first),
            first_copy=first,
            watch=watch,
        )
        for number, prompt in enumerate(prompts)
        for first in range(0, copies, rows)
    ]
    return decoding.run(requests), decoding.effort


def _encoded(lm: "RetomatonLM", number: int, prompt: Prompt) -> Tokens:
    """The tokens of a prompt, as the corpus has them; an empty one is refused."""
    if isinstance(prompt, str):
        tokens = lm.tokenizer.encode([prompt])[0][0]
    else:
        tokens = np.asarray(prompt, np.int32)
        if tokens.ndim != 1 or (
            len(tokens) and not 0 <= tokens.min() <= tokens.max() < lm.lm.vocabulary
        ):
            raise BadInput(f"prompt {number} is no list of tokens from 0 to {lm.lm.vocabulary - 1}")
    if not len(tokens):
        raise BadInput(f"prompt {number} is empty: give at least one token to go on from")
    return tokens


def _check_lengths(lm: "RetomatonLM", prompts: list[Tokens], most: int) -> None:
    for number, tokens in enumerate(prompts):
        if len(tokens) + most > lm.context:
            raise BadInput(
                f"prompt {number} has {len(tokens)} tokens: with max_new_tokens = {most} that is "
                f"more than the context of {lm.context}; shorten it, or let windows slide"
            )


def streaming(streamer: Streamer, prompts: Sequence[NDArray[Any]], asked: GenerateRequest) -> Watch:
    """Have a streamer told of the prompt now, and of every token of its text as it comes."""
    if len(prompts) > 1 or asked.num_return_sequences > 1:
        raise BadInput("a streamer takes one text: give one prompt and num_return_sequences = 1")
    if asked.num_beams == 1:
        streamer.put(torch.from_numpy(prompts[0].astype(np.int64)))

    def put(new: GrownText) -> None:
        streamer.put(torch.from_numpy(new.scores.tokens.astype(np.int64)))

    return put


def text_behind(
    tokenizer: Tokenizer, prompt: Tokens, tokens: Tokens, ending: str, stop: tuple[str, ...]
) -> str:
    """What new tokens say behind a prompt, without the EOS or the stop string they ended with."""
    shown = tokens[:-1] if ending == "eos" else tokens
    # Decoded together: what a token looks like may depend on the one before.
    before = len(tokenizer.decode(prompt.tolist()))
    new = tokenizer.decode([*prompt.tolist(), *shown.tolist()])[before:]
    if ending == "stop":
        new = new[: min(place for word in stop if (place := new.find(word)) >= 0)]
    return new


def _generated(
    lm: "RetomatonLM", prompt: Tokens, text: GrownText, stop: tuple[str, ...], effort: Effort
) -> Generated:
    return Generated(
        **text.scores.columns(),
        prompt=lm.tokenizer.decode(prompt.tolist()),
        text=text_behind(lm.tokenizer, prompt, text.scores.tokens, text.ending, stop),
        prompt_tokens=prompt,
        ending=text.ending,
        effort=effort,
    )
