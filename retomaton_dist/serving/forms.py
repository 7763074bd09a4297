"""The two forms of answers: OpenAI's completions, and its chat completions."""

from typing import Any

from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.serving.answering import ListedToken
from retomaton_dist.serving.decoded import TokenPieces, token_name, token_string


class CompletionForm:
    """/v1/completions; `listed`: with log-probabilities."""

    kind = chunk_kind = "text_completion"

    def __init__(self, tokenizer: Tokenizer, *, listed: bool) -> None:
        self._tokenizer, self._listed = tokenizer, listed
        # Of every text of a stream, how long what was sent of it is.
        self._sent: dict[int, int] = {}

    def choice(self, index: int, text: str, listed: list[ListedToken], finish: str) -> Any:
        """One text of an answer."""
        return {
            "index": index,
            "text": text,
            "logprobs": self._logprobs(listed, 0),
            "finish_reason": finish,
        }

    def piece(
        self, index: int, text: str, listed: list[ListedToken], finish: str | None, first: bool
    ) -> Any:
        """What is new of a text of a stream."""
        sent = 0 if first else self._sent[index]
        self._sent[index] = sent + len(text)
        return {
            "index": index,
            "text": text,
            "logprobs": self._logprobs(listed, sent) if listed else None,
            "finish_reason": finish,
        }

    def _logprobs(self, listed: list[ListedToken], offset: int) -> Any:
        if not self._listed:
            return None
        pieces, offsets = TokenPieces(self._tokenizer), []
        for one in listed:
            offsets.append(offset)
            offset += len(pieces.add(one.token))
        return {
            "tokens": [token_string(self._tokenizer, one.token) for one in listed],
            "token_logprobs": [one.log_p for one in listed],
            "top_logprobs": [self._top(one) for one in listed],
            "text_offset": offsets,
        }

    def _top(self, one: ListedToken) -> dict[str, float] | None:
        if one.log_p is None:
            return None
        # The very same number: clients compare them to see whether the token was the likeliest.
        top = {token_string(self._tokenizer, one.token): one.log_p}
        for token, log_p in one.alternatives:
            if token != one.token:
                text = token_string(self._tokenizer, token)
                # No token may hide another one that looks the same.
                top[token_name(self._tokenizer, token) if text in top else text] = log_p
        return top


class ChatForm:
    """/v1/chat/completions; `top` is how many alternatives are listed, None: no probabilities."""

    kind, chunk_kind = "chat.completion", "chat.completion.chunk"

    def __init__(self, tokenizer: Tokenizer, top: int | None) -> None:
        self._tokenizer, self._top = tokenizer, top

    def choice(self, index: int, text: str, listed: list[ListedToken], finish: str) -> Any:
        """One text of an answer."""
        return {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": self._logprobs(listed),
            "finish_reason": finish,
        }

    def piece(
        self, index: int, text: str, listed: list[ListedToken], finish: str | None, first: bool
    ) -> Any:
        """What is new of a text of a stream."""
        return {
            "index": index,
            "delta": {**({"role": "assistant"} if first else {}), "content": text},
            "logprobs": self._logprobs(listed) if listed else None,
            "finish_reason": finish,
        }

    def _logprobs(self, listed: list[ListedToken]) -> Any:
        if self._top is None:
            return None
        return {
            "content": [
                {
                    **self._said(one.token, one.log_p or 0.0),
                    "top_logprobs": [self._said(*pair) for pair in one.alternatives[: self._top]],
                }
                for one in listed
            ]
        }

    def _said(self, token: int, log_p: float) -> dict[str, Any]:
        text = token_string(self._tokenizer, token)
        return {"token": text, "logprob": log_p, "bytes": list(text.encode())}
