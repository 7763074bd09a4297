"""Ending on request: SIGTERM, which schedulers send, is taken like Ctrl-C."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


@dataclass
class AskedToEnd:
    """The first signal that asked for the command's end, if one did."""

    first: int = signal.SIGINT
    asked: bool = False

    @property
    def code(self) -> int:
        """The exit code that shells expect."""
        return 128 + self.first

    @property
    def word(self) -> str:
        """What has happened to the command."""
        return WORDS[signal.Signals(self.first)]

    def handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's
        """Unwind the main thread; only a user who insists disturbs the cleaning up.

        KeyboardInterrupt, since that is what native code that calls back into Python (Ray, torch)
        knows how to pass on; others it prints and forgets, or dies of.
        """
        if self.asked and number == signal.SIGTERM:
            return
        if not self.asked:
            self.asked, self.first = True, number
        raise KeyboardInterrupt


@contextlib.contextmanager
def signals_interrupt() -> Iterator[AskedToEnd]:
    """Have SIGTERM and SIGINT raise KeyboardInterrupt in the block, and know which it was.

    Only the main thread can ask for it; what is ignored stays so.
    """
    asked = AskedToEnd()
    before = {number: signal.getsignal(number) for number in WORDS}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, asked.handle)
    try:
        yield asked
    finally:
        for number in heard:
            signal.signal(number, before[number])
