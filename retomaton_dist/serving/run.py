"""Running the server in this process until it is asked to end."""

import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn

from retomaton_dist.errors import BadInput
from retomaton_dist.generation.loaded import RetomatonLM
from retomaton_dist.serving.app import make_app
from retomaton_dist.serving.doors import ServedStore
from retomaton_dist.serving.refusals import log
from retomaton_dist.settings import LoadSettings, ServerSettings


def serve(
    load: Callable[[], RetomatonLM],
    loading: LoadSettings,
    settings: ServerSettings,
    say: Callable[[str], None],
) -> None:
    """Bind the port, load the store, and serve until SIGTERM or SIGINT; then finish what began."""
    token = token_of(settings)
    with _bound(settings) as bound:
        served = ServedStore(load(), loading, settings)
        _log_to_stderr()
        host, port = bound.getsockname()[:2]
        say(f"{served.lm}\nserving {served.name!r} at http://{host}:{port}/v1")
        config = uvicorn.Config(
            make_app(served, token),
            log_config=None,
            # Its errors would tell what was asked.
            log_level="critical",
            access_log=False,
            server_header=False,
        )
        try:
            uvicorn.Server(config).run(sockets=[bound])
        except KeyboardInterrupt:
            # uvicorn has finished what was under way, and repeats the signal that asked for it.
            say("stopped")


def token_of(settings: ServerSettings) -> str | None:
    """The secret that clients must send, from the flag or from its file."""
    if settings.token_file is None:
        return settings.token
    try:
        token = Path(settings.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read --token-file {settings.token_file}: {error}") from error
    if not token:
        raise BadInput(f"--token-file {settings.token_file} is empty")
    return token


def _bound(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
        # Bound and not listening, another server could still listen at the same port.
        bound.listen(128)
    except OSError as error:
        bound.close()
        place = f"{settings.host}:{settings.port}"
        raise BadInput(
            f"cannot listen at {place}: {error.strerror or error}; name another --port"
        ) from error
    return bound


def _log_to_stderr() -> None:
    """A line of JSON per request, and nothing else's."""
    handler = logging.StreamHandler(sys.stderr)
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
