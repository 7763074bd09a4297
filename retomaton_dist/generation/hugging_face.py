"""A loaded store inside transformers' own `generate`.

    model.generate(**inputs, custom_generate=lm.custom_generate, max_new_tokens=64, do_sample=True)

What `generate` prepares - logits processors, stopping criteria, beams, copies - works on the
mixture's scores, which are the LM's logits where the automaton has no share. Random numbers come
from `seed`, not from torch. `generate` keeps `streamer=` from functions of others: here it is
called `stream_to=`. What cannot be done as asked is refused, but for `assistant_model=`, which
`generate` keeps to itself: it changes nothing, since drafts come from the store.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retomaton_dist.errors import BadInput
from retomaton_dist.generation.drafting import Draft, drafting_for
from retomaton_dist.generation.generate import GenerateRequest, Streamer, decode, streaming
from retomaton_dist.generation.generator import Tokens
from retomaton_dist.generation.sampling import Floats, SamplingParams
from retomaton_dist.generation.text_request import Ending, GrownText

if TYPE_CHECKING:
    from retomaton_dist.generation.loaded import RetomatonLM

CustomGenerate = Callable[..., Any]

# What of a generation config is not obeyed, and the one value that asks for nothing.
NOT_OBEYED = {
    "length_penalty": 1.0,
    "early_stopping": False,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "penalty_alpha": 0.0,
    "dola_layers": None,
    "constraints": None,
    "force_words_ids": None,
    "prompt_lookup_num_tokens": None,
    "output_scores": False,
    "output_logits": False,
    "output_attentions": False,
    "output_hidden_states": False,
}


def custom_generate(lm: "RetomatonLM") -> CustomGenerate:
    """What to hand to `model.generate(custom_generate=...)`."""
    known: list[Any] = [lm.lm.model]

    def generate_with_store(
        model: Any,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        seed: int = 0,
        draft: Draft = "auto",
        stream_to: Streamer | None = None,
        **prepared: Any,
    ) -> Any:
        _check_asked(generation_config)
        if not any(model is one for one in known):
            _check_model(lm, model)
            known.append(model)
        config = generation_config
        copies = max(config.num_beams, config.num_return_sequences)
        # Were the mask named above, `generate` would think that it is ours, and make another one.
        mask = prepared.get("attention_mask")
        prompts = _Prompts(lm, input_ids[::copies], None if mask is None else mask[::copies])
        # Greedy and sampled texts accept drafts differently.
        kind = "transformers", config.do_sample, config.temperature
        asked = GenerateRequest(
            max_new_tokens=config.max_length - input_ids.shape[1],
            choosing=SamplingParams(
                do_sample=config.do_sample,
                seed=seed,
                process=prompts.processed_by(logits_processor) if logits_processor else None,
            ),
            num_beams=config.num_beams,
            num_return_sequences=config.num_return_sequences,
            draft=drafting_for(lm, draft, config.num_beams, kind),
        )
        watch = None
        if stream_to is not None:
            watch = streaming(stream_to, [ids.cpu().numpy() for ids in prompts.ids], asked)
        also = prompts.ended_by(stopping_criteria) if stopping_criteria else None
        ending = Ending(asked.max_new_tokens, (), (), lm.tokenizer.decode, also)
        grown, _effort = decode(lm.generator, prompts.tokens, ending, asked, watch)
        if stream_to is not None:
            stream_to.end()
        made = prompts.with_texts(grown, config.pad_token_id)
        return _as_asked(made, config)

    return generate_with_store


class _Prompts:
    """Rows of ids as transformers has them, padded on their left, and as texts."""

    def __init__(self, lm: "RetomatonLM", ids: Tensor, mask: Tensor | None) -> None:
        self.ids = ids
        kept = torch.ones_like(ids) if mask is None else mask
        rows = [row[seen.bool()].cpu().numpy() for row, seen in zip(ids, kept, strict=True)]
        prefix = lm.generator.prefix
        # What the model reads before a document is no part of it.
        begins = [prefix is not None and len(row) > 0 and row[0] == prefix for row in rows]
        self._prefix = [prefix] if all(begins) and prefix is not None else []
        self.tokens: list[Tokens] = [
            row[1 if begin else 0 :].astype(np.int32)
            for row, begin in zip(rows, begins, strict=True)
        ]
        if not rows:
            raise BadInput("input_ids has no rows: give at least one prompt")
        for number, tokens in enumerate(self.tokens):
            if len(tokens) and not 0 <= tokens.min() <= tokens.max() < lm.lm.vocabulary:
                raise BadInput(
                    f"prompt {number} has ids outside the vocabulary: 0 to {lm.lm.vocabulary - 1}"
                )
            if not len(tokens):
                raise BadInput(f"prompt {number} is empty: give at least one token to go on from")

    def processed_by(self, processors: Any) -> Callable[[Tokens, Floats], Floats]:
        """What logits processors make of scores."""

        def process(text: Tokens, scores: Floats) -> Floats:
            made: NDArray[np.float32] = processors(
                self._row(text), torch.from_numpy(scores.astype(np.float32))[None]
            )[0].numpy()
            return made.astype(np.float64)

        return process

    def ended_by(self, criteria: Any) -> Callable[[Tokens], bool]:
        """Whether stopping criteria end a text."""
        return lambda text: bool(criteria(self._row(text), None)[0])

    def with_texts(self, grown: list[GrownText], pad: int | None) -> Tensor:
        """Ids of prompts and texts, padded on their right."""
        longest = max(len(text.scores.tokens) for text in grown)
        made = torch.full((len(grown), self.ids.shape[1] + longest), pad or 0, dtype=torch.int64)
        for row, text in zip(made, grown, strict=True):
            row[: self.ids.shape[1]] = self.ids[text.prompt]
            end = self.ids.shape[1] + len(text.scores.tokens)
            row[self.ids.shape[1] : end] = torch.from_numpy(text.scores.tokens.astype(np.int64))
        return made.to(self.ids.device)

    def _row(self, text: Tokens) -> Tensor:
        return torch.tensor([[*self._prefix, *text.tolist()]])


def _check_asked(config: Any) -> None:
    """Refuse what would be left undone without a word."""
    for name, usual in NOT_OBEYED.items():
        given = getattr(config, name, None)
        if given is not None and given != usual:
            raise BadInput(
                f"{name} = {given}: generating with a store cannot do that; leave it out"
            )


def _as_asked(ids: Tensor, config: Any) -> Any:
    if not config.return_dict_in_generate:
        return ids
    from transformers.generation.utils import GenerateDecoderOnlyOutput

    return GenerateDecoderOnlyOutput(sequences=ids)


def _check_model(lm: "RetomatonLM", model: Any) -> None:
    """Refuse a model that has other weights than the one that the store was made with."""
    ours, theirs = lm.lm.model.state_dict(), model.state_dict()
    same = ours.keys() == theirs.keys() and all(
        value.shape == theirs[name].shape and torch.equal(value.cpu(), theirs[name].cpu())
        for name, value in ours.items()
    )
    if not same:
        raise BadInput(
            f"this model is not {lm.lm.name!r}, which the store was made with (other weights); "
            "generate with lm.lm.model, or make a store with this one"
        )
