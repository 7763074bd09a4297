"""From decoded texts to answers: whole ones, and streams, in the form of either door."""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from retomaton_dist.errors import RetomatonError
from retomaton_dist.generation.generate import text_behind
from retomaton_dist.generation.loaded import RetomatonLM
from retomaton_dist.generation.text_request import Alternatives, GrownText, TextRequest
from retomaton_dist.serving.asking import PromptTokens, TextSizes
from retomaton_dist.serving.decoded import HeldBack, TokenPieces
from retomaton_dist.serving.refusals import Refused, failure
from retomaton_dist.serving.worker import ClientTicket, DecodingWorker

FINISH = {"eos": "stop", "stop": "stop", "asked": "stop", "length": "length"}
# JSON has no infinity; this is what OpenAI says instead.
LEAST_LOG = -9999.0


@dataclass(frozen=True)
class ListedToken:
    """A token with its log-probability (None: it has none), and what else was likely."""

    token: int
    log_p: float | None
    alternatives: Alternatives


class AnswerForm(Protocol):
    """How a door says what was decoded."""

    kind: str
    chunk_kind: str

    def choice(self, index: int, text: str, listed: list[ListedToken], finish: str) -> Any:
        """One text of an answer."""
        ...

    def piece(
        self, index: int, text: str, listed: list[ListedToken], finish: str | None, first: bool
    ) -> Any:
        """What is new of a text of a stream."""
        ...


@dataclass(frozen=True, eq=False)
class Answering:
    """A request under way: who decodes it, of which prompts, and how it is answered.

    `explain` says what is wrong in words for the client.
    """

    worker: DecodingWorker
    lm: RetomatonLM
    model: str
    explain: Callable[[RetomatonError], str]
    form: AnswerForm
    prompts: list[PromptTokens]
    requests: list[TextRequest]
    sizes: TextSizes
    timeout: float
    echo: bool = False
    listed: bool = False
    id: str = field(default_factory=lambda: f"retomaton-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    async def whole(self) -> dict[str, Any]:
        """The answer when all texts have ended."""
        ticket, queue = self._submit(streamed=False)
        try:
            ended = [text async for text in self._texts(queue)]
        finally:
            self.worker.cancel(ticket)
        choices: list[Any] = []
        for number, prompt in enumerate(self.prompts):
            texts = sorted(
                (text for text in ended if text.prompt == number), key=lambda text: text.copy
            )
            if self.sizes.made > self.sizes.returned:
                texts.sort(key=lambda text: -self._mean(prompt, text))
            # Greedy copies are all the same text, which was made once.
            texts = (texts * self.sizes.returned)[: self.sizes.returned]
            for text in texts:
                choices.append(self._choice(len(choices), prompt, text))
        usage = self._usage(sum(self._new(self.prompts[text.prompt], text) for text in ended))
        return {**self._head(self.form.kind), "choices": choices, "usage": usage}

    async def stream(self, with_usage: bool) -> AsyncGenerator[str]:
        """Server-sent events: what is new of every text, and its end.

        Before the first one, all is accepted that can be.
        """
        ticket, queue = self._submit(streamed=True)
        try:
            made = sum(request.copies for request in self.requests)
            each, new = made // len(self.prompts), 0
            states = [TextStream(self, self.prompts[index // each], index) for index in range(made)]
            yield self._event([state.begin() for state in states])
            async for text in self._texts(queue):
                state = states[text.prompt * each + text.copy]
                if text.ending:
                    new += self._new(state.prompt, text)
                yield self._event([state.end(text) if text.ending else state.add(text)])
        # The status is sent already: whatever is wrong is the last event.
        except Exception as error:  # noqa: BLE001
            yield f"data: {json.dumps(self._refusal(error).body())}\n\n"
        finally:
            self.worker.cancel(ticket)
        if with_usage:
            yield self._event([], usage=self._usage(new))
        yield "data: [DONE]\n\n"

    def stops(self) -> tuple[str, ...]:
        """The strings that end a text."""
        return self.requests[0].ending.stop

    def listing(self, prompt: PromptTokens, text: GrownText) -> list[ListedToken]:
        """The tokens of a text with what is known of them; with the prompt's, if it was scored."""
        noted: list[Alternatives] = list(text.alternatives) or [[]] * len(text.scores.tokens)
        listed = [
            ListedToken(int(token), max(float(log_p), LEAST_LOG), alternatives)
            for token, log_p, alternatives in zip(
                text.scores.tokens, text.scores.log_p, noted, strict=True
            )
        ]
        if self.sizes.score_prompt:
            unknown = prompt.ids[: prompt.begins + self.lm.generator.unpredicted]
            listed = [ListedToken(token, None, []) for token in unknown] + listed
            if listed:
                # That a document's first token has a probability, too, is not for all to know.
                listed[0] = ListedToken(listed[0].token, None, [])
        return listed

    def _choice(self, index: int, prompt: PromptTokens, text: GrownText) -> Any:
        tokens = text.scores.tokens[len(text.scores.tokens) - self._new(prompt, text) :]
        said = text_behind(self.lm.tokenizer, prompt.tokens, tokens, text.ending, self.stops())
        if self.echo:
            said = self.lm.tokenizer.decode(prompt.ids) + said
        listed = self.listing(prompt, text) if self.listed else []
        return self.form.choice(index, said, listed, FINISH[text.ending])

    def _new(self, prompt: PromptTokens, text: GrownText) -> int:
        """How many tokens of a text that ended are behind the prompt."""
        before = (
            len(prompt.tokens) - self.lm.generator.unpredicted if self.sizes.score_prompt else 0
        )
        return len(text.scores.tokens) - before

    def _mean(self, prompt: PromptTokens, text: GrownText) -> float:
        new = self._new(prompt, text)
        return float(text.scores.log_p[-new:].mean()) if new else 0.0

    def _submit(
        self, *, streamed: bool
    ) -> tuple[ClientTicket, "asyncio.Queue[GrownText | Exception]"]:
        """Hand the request to the worker; what it delivers comes through the queue."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[GrownText | Exception] = asyncio.Queue()

        def deliver(item: GrownText | Exception) -> None:
            # At the very end there may be nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(queue.put_nowait, item)

        ticket = ClientTicket(self.lm, self.requests, deliver, streamed)
        self.worker.submit(ticket)
        return ticket, queue

    async def _texts(
        self, queue: "asyncio.Queue[GrownText | Exception]"
    ) -> AsyncIterator[GrownText]:
        """What the worker delivers, until all texts ended."""
        left = sum(request.copies for request in self.requests)
        each, until = len(self.requests) // len(self.prompts), time.monotonic() + self.timeout
        while left:
            try:
                item = await asyncio.wait_for(queue.get(), until - time.monotonic())
            except TimeoutError as error:
                raise Refused(
                    f"the request took more than {self.timeout:g} seconds and was given up", 504
                ) from error
            if isinstance(item, Exception):
                raise item
            left -= bool(item.ending)
            # There are as many requests for each prompt.
            yield replace(item, prompt=item.prompt // each)

    def _refusal(self, error: Exception) -> Refused:
        if isinstance(error, RetomatonError):
            return Refused(self.explain(error))
        return error if isinstance(error, Refused) else failure(error)

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _event(self, choices: list[Any], **more: Any) -> str:
        body = {**self._head(self.form.chunk_kind), "choices": choices, **more}
        return f"data: {json.dumps(body)}\n\n"

    def _usage(self, new: int) -> dict[str, int]:
        prompts = sum(len(prompt.ids) for prompt in self.prompts)
        return {
            "prompt_tokens": prompts,
            "completion_tokens": new,
            "total_tokens": prompts + new,
        }


class TextStream:
    """One text of a stream: what of it was sent."""

    def __init__(self, answering: Answering, prompt: PromptTokens, index: int) -> None:
        self._answering, self.prompt, self._index = answering, prompt, index
        self._pieces = TokenPieces(answering.lm.tokenizer, prompt.tokens.tolist())
        self._held = HeldBack(answering.stops())
        self._ends = answering.requests[0].ending.eos

    def begin(self) -> Any:
        """The first event: the prompt, if it is to be echoed."""
        echoed = self._answering.lm.tokenizer.decode(self.prompt.ids)
        text = echoed if self._answering.echo else ""
        return self._answering.form.piece(self._index, text, [], None, True)

    def add(self, new: GrownText) -> Any:
        """A token came."""
        token = int(new.scores.tokens[0])
        text = "" if token in self._ends else self._held.add(self._pieces.add(token))
        listed = self._answering.listing(self.prompt, new) if self._answering.listed else []
        return self._answering.form.piece(self._index, text, listed, None, False)

    def end(self, text: GrownText) -> Any:
        """The text ended: what is left of it, and why."""
        answering = self._answering
        tokens, tokenizer = text.scores.tokens, answering.lm.tokenizer
        said = text_behind(tokenizer, self.prompt.tokens, tokens, text.ending, answering.stops())
        rest, finish = self._held.rest(said), FINISH[text.ending]
        return answering.form.piece(self._index, rest, [], finish, False)
