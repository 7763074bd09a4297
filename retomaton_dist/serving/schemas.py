"""What clients send: the fields of OpenAI's API, and a few of our own."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Ids = list[Annotated[int, Field(ge=0, lt=1 << 31)]]
Stop = str | Annotated[list[str], Field(max_length=16)] | None
MOST_PROMPTS, MOST_COPIES, MOST_ALTERNATIVES = 1024, 128, 20


class StreamOptions(BaseModel):
    """What a stream has besides tokens."""

    model_config = ConfigDict(extra="forbid")
    include_usage: bool = False


class AskedFor(BaseModel):
    """What both doors take. `user` is read by nobody; what cannot be done must be empty.

    Our own: `method` (as the flag), `walk: false` for the plain LM, `slide` for texts longer than
    the context, `top_k` and `repetition_penalty` as in transformers.
    """

    model_config = ConfigDict(extra="forbid")
    model: str
    temperature: float = Field(1.0, ge=0, le=100)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int | None = Field(None, ge=1)
    n: int = Field(1, ge=1, le=MOST_COPIES)
    stop: Stop = None
    seed: int | None = Field(None, ge=0, lt=1 << 63)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    repetition_penalty: float = Field(1.0, gt=0, le=100)
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    method: str | None = None
    walk: bool = True
    slide: bool = False

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end a text."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class CompletionRequest(AskedFor):
    """The body of /v1/completions."""

    prompt: str | Ids | Annotated[list[str] | list[Ids], Field(max_length=MOST_PROMPTS)]
    max_tokens: int | None = Field(16, ge=0)
    best_of: int | None = Field(None, ge=1, le=MOST_COPIES)
    echo: bool = False
    logprobs: int | None = Field(None, ge=0, le=MOST_ALTERNATIVES)
    suffix: Literal[""] | None = None


class ChatMessage(BaseModel):
    """One message of a conversation; `content` is text, or parts of text."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[dict[str, Any]] | None = None


class ChatRequest(AskedFor):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MOST_ALTERNATIVES)


class TokenizeRequest(BaseModel):
    """The body of /tokenize."""

    prompt: str
    add_special_tokens: bool = True
    model: str | None = None


class DetokenizeRequest(BaseModel):
    """The body of /detokenize."""

    tokens: Ids
    model: str | None = None
