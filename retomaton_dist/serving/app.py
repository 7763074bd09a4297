"""The ASGI app: routes, errors in OpenAI's form, a token, limits."""

import asyncio
import contextlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from retomaton_dist.errors import RetomatonError
from retomaton_dist.serving.answering import Answering
from retomaton_dist.serving.doors import ServedStore
from retomaton_dist.serving.refusals import Refused, error_body, failure, log
from retomaton_dist.serving.schemas import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MOST_BYTES = 8 << 20
OPEN = ("/healthz", "/readyz")


def make_app(served: ServedStore, token: str | None) -> FastAPI:
    """The app of a store; with a token, clients must send it."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(served.worker.stop)

    app = FastAPI(title="retomaton", docs_url=None, redoc_url=None, lifespan=lifespan)
    _add_errors(app, served)
    _add_doors(app, served)
    _add_tokenizer(app, served)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        if served.worker.ready.is_set():
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "warming up"}, 503, headers={"Retry-After": "1"})

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(served.metrics.page(), media_type="text/plain; version=0.0.4")

    app.add_middleware(Gatekeeper, served=served, token=token)
    return app


def _add_doors(app: FastAPI, served: ServedStore) -> None:
    @app.post("/v1/completions")
    async def completions(asked: CompletionRequest, request: Request) -> Response:
        answering = await run_in_threadpool(served.completion, asked)
        return await _answer(answering, request, asked)

    @app.post("/v1/chat/completions")
    async def chat(asked: ChatRequest, request: Request) -> Response:
        answering = await run_in_threadpool(served.chat, asked)
        return await _answer(answering, request, asked)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        one = {
            "id": served.name,
            "object": "model",
            "created": 0,
            "owned_by": "retomaton",
            "max_model_len": served.lm.context,
            "method": served.lm.method,
        }
        return {"object": "list", "data": [one]}


def _add_tokenizer(app: FastAPI, served: ServedStore) -> None:
    tokenizer = served.lm.tokenizer

    @app.post("/tokenize")
    async def tokenize(asked: TokenizeRequest) -> dict[str, Any]:
        served.check_model(asked.model)
        tokens = tokenizer.encode([asked.prompt])[0][0].tolist()
        prefix = served.lm.generator.prefix
        if asked.add_special_tokens and prefix is not None:
            tokens = [prefix, *tokens]
        return {"tokens": tokens, "count": len(tokens), "max_model_len": served.lm.context}

    @app.post("/detokenize")
    async def detokenize(asked: DetokenizeRequest) -> dict[str, str]:
        served.check_model(asked.model)
        if any(token >= tokenizer.vocabulary for token in asked.tokens):
            raise Refused(f"tokens: 0..{tokenizer.vocabulary - 1} are known", param="tokens")
        return {"prompt": tokenizer.decode(asked.tokens)}

    @app.get("/tokenizer_info")
    async def tokenizer_info() -> dict[str, str | None]:
        names = {"eos_token": tokenizer.eos, "bos_token": tokenizer.bos, "pad_token": None}
        shown = {
            name: None if token is None else tokenizer.decode([token])
            for name, token in names.items()
        }
        return {**shown, "chat_template": await run_in_threadpool(lambda: served.chat_template)}


async def _answer(
    answering: Answering, request: Request, asked: CompletionRequest | ChatRequest
) -> Response:
    """Answer as a whole or as a stream; a client that goes away frees its rows."""
    if asked.stream:
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        events = answering.stream(with_usage)
        # What is refused at once is refused with its own status.
        first = await anext(events)

        async def all_events() -> AsyncIterator[str]:
            async with contextlib.aclosing(events):
                yield first
                async for event in events:
                    yield event

        return StreamingResponse(all_events(), media_type="text/event-stream")
    answer = asyncio.create_task(answering.whole())
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            # Nobody reads this.
            return Response(status_code=499)
        return JSONResponse(answer.result())
    finally:
        for task in (answer, gone):
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _add_errors(app: FastAPI, served: ServedStore) -> None:
    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return JSONResponse(error.body(), error.status, headers=error.headers)

    @app.exception_handler(RetomatonError)
    async def bad_input(_: Request, error: RetomatonError) -> JSONResponse:
        return JSONResponse(error_body(served.without_paths(error), 400), 400)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = [str(part) for part in first["loc"][1:]]
        if first["type"] == "json_invalid":
            return JSONResponse(error_body("the body is not JSON", 400), 400)
        message = f"{'.'.join(where) or 'body'}: {first['msg']}"
        return JSONResponse(error_body(message, 400, where[0] if where else None), 400)

    @app.exception_handler(AnyHTTPException)
    async def other(_: Request, error: AnyHTTPException) -> JSONResponse:
        body = error_body(str(error.detail), error.status_code)
        return JSONResponse(body, error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse(failure(error).body(), 500)


class Gatekeeper:
    """Lets requests in: with the right token, not too large; counts and logs what came of them."""

    def __init__(self, app: Any, served: ServedStore, token: str | None) -> None:
        self._app, self._served = app, served
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0
        headers = dict(scope["headers"])
        refused = self._refused(scope["path"], headers)

        async def count(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if refused is not None:
                answer = JSONResponse(refused.body(), refused.status)
                await answer(dict(scope), receive, count)
            else:
                await self._app(scope, _limited(receive), count)
        finally:
            self._note(scope, status, time.perf_counter() - begun)

    def _refused(self, path: str, headers: dict[bytes, bytes]) -> Refused | None:
        if self._token is not None and path not in OPEN:
            given = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
            if not hmac.compare_digest(given, self._token):
                return Refused("the token is missing or wrong", 401, code="invalid_api_key")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return Refused(f"the body is larger than {MOST_BYTES >> 20} MiB", 413)
        return None

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request, without anything that it said."""
        route = getattr(scope.get("route"), "path", "other")
        self._served.metrics.requests.labels(route, str(status)).inc()
        self._served.metrics.latency.labels(route).observe(seconds)
        log.info(
            json.dumps(
                {
                    "event": "request",
                    "time": round(time.time(), 3),
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "seconds": round(seconds, 4),
                }
            )
        )


def _limited(receive: Receive) -> Receive:
    """The same, until a body of unknown length is too large."""
    size = 0

    async def limited() -> MutableMapping[str, Any]:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BYTES:
            # FastAPI makes a 400 of any other exception that comes while it reads.
            raise HTTPException(413, f"the body is larger than {MOST_BYTES >> 20} MiB")
        return message

    return limited
