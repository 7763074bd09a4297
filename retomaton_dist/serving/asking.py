"""From what a client sent to texts that are asked for; whatever cannot be is refused."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retomaton_dist.generation.generate import ends_of
from retomaton_dist.generation.generator import Tokens
from retomaton_dist.generation.loaded import RetomatonLM
from retomaton_dist.generation.sampling import SamplingParams
from retomaton_dist.generation.text_request import Ending, TextRequest
from retomaton_dist.serving.refusals import Refused
from retomaton_dist.serving.schemas import AskedFor, CompletionRequest

CHOOSE = ("top_k", "top_p", "repetition_penalty", "presence_penalty", "frequency_penalty")


@dataclass(frozen=True, eq=False)
class PromptTokens:
    """A prompt as it came (`ids`), and its tokens without the prefix that the model reads anyway.

    `begins` is how many ids that are: 0 or 1.
    """

    ids: list[int]
    tokens: Tokens
    begins: int


@dataclass(frozen=True)
class TextSizes:
    """How many texts of a prompt are made and given back, how long, and what is noted of them."""

    max_tokens: int
    made: int = 1
    returned: int = 1
    score_prompt: bool = False
    alternatives: int = 0


def prompts_of(lm: RetomatonLM, asked: CompletionRequest) -> list[PromptTokens]:
    """The prompts of a request: a string, several, token ids, or several lists of them."""
    given = asked.prompt
    if not isinstance(given, str) and not given:
        raise Refused("prompt is empty: give some text, or token ids", param="prompt")
    if isinstance(given, str) or isinstance(given[0], int):
        return [prompt_of(lm, given)]
    return [prompt_of(lm, item) for item in given]


def prompt_of(lm: RetomatonLM, given: str | Sequence[int]) -> PromptTokens:
    """One prompt."""
    ids = lm.tokenizer.encode([given])[0][0].tolist() if isinstance(given, str) else list(given)
    most = lm.lm.vocabulary
    if any(not 0 <= token < most for token in ids):
        raise Refused(f"prompt has a token outside 0..{most - 1}", param="prompt")
    prefix = lm.generator.prefix
    begins = int(prefix is not None and bool(ids) and ids[0] == prefix)
    if len(ids) - begins < lm.generator.unpredicted:
        raise Refused("prompt is empty: give at least one token to go on from", param="prompt")
    return PromptTokens(ids, np.array(ids[begins:], np.int32), begins)


def check_sizes(
    lm: RetomatonLM,
    asked: AskedFor,
    prompts: Sequence[PromptTokens],
    sizes: TextSizes,
    most_new: int,
) -> None:
    """Refuse texts that are too long."""
    if sizes.max_tokens > most_new:
        raise Refused(f"max_tokens = {sizes.max_tokens}: {most_new} at most", param="max_tokens")
    for prompt in prompts:
        if len(prompt.tokens) + sizes.max_tokens > lm.context and not asked.slide:
            raise Refused(
                f"the prompt has {len(prompt.ids)} tokens: with max_tokens = {sizes.max_tokens} "
                f"that is more than the context of {lm.context}; shorten it, or send slide: true",
                param="prompt",
                code="context_length_exceeded",
            )


def text_requests(
    lm: RetomatonLM, asked: AskedFor, prompts: Sequence[PromptTokens], sizes: TextSizes, rows: int
) -> list[TextRequest]:
    """The texts that are asked for, prompt by prompt.

    Greedy copies are all alike: one is made, unless each is to be streamed.
    A request has no more copies than there are `rows`; those of a prompt follow each other.
    """
    sampled = asked.temperature > 0
    choosing = SamplingParams(
        do_sample=sampled,
        temperature=asked.temperature or 1.0,
        seed=secrets.randbits(62) if asked.seed is None else asked.seed,
        **{name: getattr(asked, name) for name in CHOOSE},
    )
    if "" in asked.stops:
        raise Refused("stop: an empty string is everywhere; leave it out", param="stop")
    ending = Ending(sizes.max_tokens, ends_of(lm), asked.stops, lm.tokenizer.decode)
    made = sizes.made if sampled or asked.stream else 1
    return [
        TextRequest(
            number=0,
            prompt=prompt.tokens,
            ending=ending,
            choosing=choosing,
            copies=min(rows, made - first),
            first_copy=first,
            score_prompt=sizes.score_prompt,
            alternatives=sizes.alternatives,
        )
        for prompt in prompts
        for first in range(0, made, rows)
    ]
