"""What is refused, and how: OpenAI's error form with the status that fits."""

import json
import logging
import traceback
from typing import Any

log = logging.getLogger("retomaton.serve")


class Refused(Exception):
    """A request that is not answered as asked; the message is for the client."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}

    def body(self) -> dict[str, Any]:
        """What the client gets."""
        return error_body(self.message, self.status, self.param, self.code)


KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "timeout_error",
}


def error_body(
    message: str, status: int, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error as OpenAI's API has it."""
    kind = KINDS.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def failure(error: Exception) -> Refused:
    """What a client is told of an error of the server's own, of which the log has the place.

    Its message may have parts of a request, or paths: neither is for logs or clients.
    """
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = [f"{frame.filename}:{frame.lineno}" for frame in frames]
    log.error(json.dumps({"event": "failed", "error": type(error).__name__, "where": where}))
    return Refused("the server failed; see its log", 500)
