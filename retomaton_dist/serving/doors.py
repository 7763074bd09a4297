"""What the server does for each kind of request, whoever carries it."""

import threading
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from retomaton_dist.errors import RetomatonError
from retomaton_dist.generation.drafting import Draft
from retomaton_dist.generation.loaded import RetomatonLM, with_settings
from retomaton_dist.lm.identity import locate
from retomaton_dist.lm.tokenizer import load_transformers_tokenizer
from retomaton_dist.serving.answering import Answering
from retomaton_dist.serving.asking import (
    PromptTokens,
    TextSizes,
    check_sizes,
    prompt_of,
    prompts_of,
    text_requests,
)
from retomaton_dist.serving.forms import ChatForm, CompletionForm
from retomaton_dist.serving.metrics import Metrics
from retomaton_dist.serving.refusals import Refused
from retomaton_dist.serving.schemas import AskedFor, ChatMessage, ChatRequest, CompletionRequest
from retomaton_dist.serving.worker import DecodingWorker
from retomaton_dist.settings import LoadSettings, ServerSettings

PLAIN = "lm"
# What is chosen for one method, and means nothing to another one.
THRESHOLDS = ("automaton", "tau", "foss", "sigma", "lambda_", "knn_temperature")


class ServedStore:
    """A loaded store that answers: its methods, its worker, and its limits."""

    def __init__(self, lm: RetomatonLM, loading: LoadSettings, settings: ServerSettings) -> None:
        self.lm, self._loading, self._settings = lm, loading, settings
        self.name = settings.name or lm.store.path.name
        self.metrics = Metrics()
        draft: Draft = "auto" if settings.draft is None else settings.draft
        sizes = settings.rows, settings.queue
        self.worker = DecodingWorker(*sizes, draft, self.metrics, self._warm_up)
        self._methods, self._lock = {lm.method: lm}, threading.Lock()

    def by_method(self, asked: AskedFor) -> RetomatonLM:
        """The store by the method that is asked for; it is opened when it is first needed."""
        self.check_model(asked.model)
        name = asked.method or self.lm.method
        if not asked.walk:
            if asked.method not in (None, PLAIN):
                raise Refused("walk: false is the plain LM: leave method out", param="walk")
            name = PLAIN
        with self._lock:
            if name not in self._methods:
                others: dict[str, Any] = {**dict.fromkeys(THRESHOLDS), "method": name}
                self._methods[name] = with_settings(self.lm, replace(self._loading, **others))
            return self._methods[name]

    def check_model(self, name: str | None) -> None:
        """Refuse another model than the one that is served."""
        if name not in (None, self.name):
            raise Refused(
                f"there is no model {name!r}: {self.name!r} is served here",
                404,
                param="model",
                code="model_not_found",
            )

    def without_paths(self, error: RetomatonError) -> str:
        """What is wrong, without where things lie on this machine."""
        store = self.lm.store.path
        message = str(error).replace(str(store), self.name).replace(str(store.parent), "...")
        model = self.lm.model.identity
        for place in (model.place, model.name):
            if Path(place).is_absolute():
                message = message.replace(place, "the model")
        return message

    def completion(self, asked: CompletionRequest) -> Answering:
        """What /v1/completions is to answer."""
        lm = self.by_method(asked)
        made = asked.best_of or asked.n
        if made < asked.n:
            raise Refused(f"best_of = {made} is less than n = {asked.n}", param="best_of")
        if asked.stream and made > asked.n:
            raise Refused(
                "best_of cannot be streamed: which is best shows in the end", param="best_of"
            )
        if asked.stream and asked.echo and asked.logprobs is not None:
            raise Refused("echo with logprobs cannot be streamed", param="stream")
        new = 16 if asked.max_tokens is None else asked.max_tokens
        if not new and not asked.echo:
            raise Refused("max_tokens = 0 asks for nothing without echo", param="max_tokens")
        listed = asked.logprobs is not None
        sizes = TextSizes(new, made, asked.n, asked.echo and listed, asked.logprobs or 0)
        form = CompletionForm(lm.tokenizer, listed=listed)
        return self._answering(
            lm, asked, prompts_of(lm, asked), sizes, form, echo=asked.echo, listed=listed
        )

    def chat(self, asked: ChatRequest) -> Answering:
        """What /v1/chat/completions is to answer."""
        lm = self.by_method(asked)
        prompt = prompt_of(lm, self.conversation(asked.messages))
        left = max(lm.context - len(prompt.tokens), 1)
        new = asked.max_completion_tokens or asked.max_tokens
        new = min(left, self._settings.max_tokens) if new is None else new
        if asked.top_logprobs and not asked.logprobs:
            raise Refused("top_logprobs needs logprobs: true", param="top_logprobs")
        top = (asked.top_logprobs or 0) if asked.logprobs else None
        sizes = TextSizes(new, asked.n, asked.n, alternatives=top or 0)
        form = ChatForm(lm.tokenizer, top)
        return self._answering(lm, asked, [prompt], sizes, form, listed=top is not None)

    def conversation(self, messages: list[ChatMessage]) -> list[int]:
        """The tokens of a conversation, by the tokenizer's chat template."""
        if self.chat_template is None:
            raise Refused(
                "the model's tokenizer has no chat template: ask /v1/completions instead",
                code="no_chat_template",
            )
        said = []
        for message in messages:
            content = message.content
            if isinstance(content, list):
                if any(part.get("type") != "text" for part in content):
                    raise Refused("messages: parts other than text are not read", param="messages")
                content = "".join(str(part.get("text", "")) for part in content)
            said.append({"role": message.role, "content": content or ""})
        try:
            text = self._transformers_tokenizer.apply_chat_template(
                said, tokenize=False, add_generation_prompt=True
            )
        # Templates are code of the model's, and refuse what they do not know in their own ways.
        except Exception as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Refused(f"the chat template refuses this: {first}", param="messages") from error
        ids: list[int] = self.lm.tokenizer.encode([text])[0][0].tolist()
        return ids

    @cached_property
    def chat_template(self) -> str | None:
        """The tokenizer's chat template, if it has one."""
        template: str | None = self._transformers_tokenizer.chat_template
        return template

    @cached_property
    def _transformers_tokenizer(self) -> Any:
        spec = self.lm.model
        return load_transformers_tokenizer(locate(spec), spec.trust_remote_code)

    def _answering(
        self,
        lm: RetomatonLM,
        asked: AskedFor,
        prompts: list[PromptTokens],
        sizes: TextSizes,
        form: CompletionForm | ChatForm,
        *,
        echo: bool = False,
        listed: bool = False,
    ) -> Answering:
        check_sizes(lm, asked, prompts, sizes, self._settings.max_tokens)
        requests = text_requests(lm, asked, prompts, sizes, self.worker.rows)
        texts, most = sum(request.copies for request in requests), self.worker.most_texts
        if texts > most:
            raise Refused(f"{texts} texts are asked for at once: {most} at most; send fewer")
        return Answering(
            self.worker,
            lm,
            self.name,
            self.without_paths,
            form,
            prompts,
            requests,
            sizes,
            self._settings.timeout,
            echo,
            listed,
        )

    def _warm_up(self) -> None:
        """Do once what is slow the first time: open maps, load kernels, try the model out."""
        prompt = [self.lm.tokenizer.eos or 0]
        for draft, sampled in ((0, False), (2, True)):
            self.lm.generate([prompt, prompt * 2], max_new_tokens=3, draft=draft, do_sample=sampled)
