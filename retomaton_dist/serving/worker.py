"""The thread that decodes: requests of all clients share its rows."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields

from retomaton_dist.generation.decoding import Decoding
from retomaton_dist.generation.drafting import Draft, drafting_for
from retomaton_dist.generation.loaded import RetomatonLM
from retomaton_dist.generation.text_request import GrownText, TextRequest
from retomaton_dist.serving.metrics import Metrics
from retomaton_dist.serving.refusals import Refused, failure

Deliver = Callable[[GrownText | Exception], None]


@dataclass(eq=False)
class ClientTicket:
    """What one client waits for: requests, numbered from 0 on, decoded by one method.

    `deliver` is called from the worker's thread with every text that ended, with new tokens if
    `streamed` (texts whose ending is ""), and with an exception if it cannot go on. `first` is the
    number that the worker gives to its first request.
    """

    lm: RetomatonLM
    requests: Sequence[TextRequest]
    deliver: Deliver
    streamed: bool = False
    first: int = 0
    begun: float = field(default_factory=time.perf_counter)
    left: int = 0

    def __post_init__(self) -> None:
        self.left = sum(request.copies for request in self.requests)


class DecodingWorker:
    """Decodes tickets, `rows` texts of a method at a time; `queue` more may wait.

    Nothing else may run the model: it is watched while it runs. `warm_up` is called first; when it
    is through, the worker is `ready`.
    """

    def __init__(
        self,
        rows: int,
        queue: int,
        draft: Draft,
        metrics: Metrics,
        warm_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._rows, self._queue, self._draft, self._metrics = rows, queue, draft, metrics
        self._next = 0
        self._changed = threading.Condition()
        self._arrived: list[ClientTicket] = []
        self._cancelled: list[ClientTicket] = []
        # By the numbers of their requests.
        self._tickets: dict[int, ClientTicket] = {}
        self._pending = 0
        self._stopping = False
        self._warm_up, self.ready = warm_up, threading.Event()
        # By the loaded method; touched by the worker's thread alone.
        self._decodings: dict[RetomatonLM, Decoding] = {}
        self._thread = threading.Thread(target=self._work, name="decoding", daemon=True)
        self._thread.start()

    @property
    def most_texts(self) -> int:
        """How many texts may be under way at once."""
        return self._rows + self._queue

    @property
    def rows(self) -> int:
        """How many texts grow side by side."""
        return self._rows

    def submit(self, ticket: ClientTicket) -> None:
        """Have a ticket decoded; Refused if too many texts wait."""
        with self._changed:
            if self._pending + ticket.left > self.most_texts:
                raise Refused("too many requests are waiting; try again later", 429, retry_after=1)
            ticket.first, self._next = self._next, self._next + len(ticket.requests)
            self._pending += ticket.left
            self._arrived.append(ticket)
            self._changed.notify()

    def cancel(self, ticket: ClientTicket) -> None:
        """Give a ticket up; nothing happens if it is finished."""
        with self._changed:
            self._cancelled.append(ticket)
            self._changed.notify()

    def stop(self) -> None:
        """End the thread; what is under way is given up."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        try:
            self._warm_up()
            self.ready.set()
        # It stays unready; whoever asks all the same is told what is wrong.
        except Exception as error:  # noqa: BLE001
            failure(error)
        while True:
            with self._changed:
                while not (self._arrived or self._cancelled or self._stopping or self._tickets):
                    self._changed.wait()
                arrived, self._arrived = self._arrived, []
                cancelled, self._cancelled = self._cancelled, []
                if self._stopping:
                    break
            for ticket in arrived:
                self._begin(ticket)
            for ticket in cancelled:
                self._forget(ticket)
            for lm, decoding in list(self._decodings.items()):
                if decoding.busy:
                    self._step(lm, decoding)
            running = min(self._pending, self._rows)
            self._metrics.running.set(running)
            self._metrics.waiting.set(self._pending - running)
        for decoding in self._decodings.values():
            decoding.close()

    def _begin(self, ticket: ClientTicket) -> None:
        numbers = range(ticket.first, ticket.first + len(ticket.requests))
        self._tickets |= dict.fromkeys(numbers, ticket)
        try:
            if ticket.lm not in self._decodings:
                drafts = drafting_for(ticket.lm, self._draft, kind="server")
                self._decodings[ticket.lm] = Decoding(ticket.lm.generator, self._rows, drafts)
        # Whatever it is, it is the client's answer, and others go on.
        except Exception as error:  # noqa: BLE001
            self._fail(ticket, error)
            return
        for number, request in zip(numbers, ticket.requests, strict=True):
            watch = self._watch(ticket)
            self._decodings[ticket.lm].submit(with_fields(request, number=number, watch=watch))
            self._metrics.count("prompt_tokens", len(request.prompt))

    def _watch(self, ticket: ClientTicket) -> Callable[[GrownText], None]:
        begun: set[int] = set()

        def watch(new: GrownText) -> None:
            if new.copy not in begun:
                begun.add(new.copy)
                self._metrics.first_token.observe(time.perf_counter() - ticket.begun)
            if ticket.streamed:
                ticket.deliver(with_fields(new, prompt=new.prompt - ticket.first))

        return watch

    def _step(self, lm: RetomatonLM, decoding: Decoding) -> None:
        before = decoding.effort
        try:
            ended = decoding.step()
        # A text that cannot go on must not end the server: all that shared its rows are told.
        except Exception as error:  # noqa: BLE001
            decoding.close()
            del self._decodings[lm]
            for ticket in {one for one in self._tickets.values() if one.lm is lm}:
                self._fail(ticket, error)
            return
        self._metrics.spent(before, decoding.effort)
        for text in ended:
            ticket = self._tickets[text.prompt]
            ticket.left -= 1
            self._settle(1)
            self._metrics.finished(text.scores)
            if not ticket.left:
                self._close(ticket)
            ticket.deliver(with_fields(text, prompt=text.prompt - ticket.first))

    def _forget(self, ticket: ClientTicket) -> None:
        if ticket.first not in self._tickets:
            return
        for number in range(ticket.first, ticket.first + len(ticket.requests)):
            self._decodings[ticket.lm].cancel(number)
        self._metrics.count("cancelled")
        self._close(ticket)

    def _fail(self, ticket: ClientTicket, error: Exception) -> None:
        self._close(ticket)
        ticket.deliver(error)

    def _close(self, ticket: ClientTicket) -> None:
        """Nothing more comes of a ticket."""
        for number in range(ticket.first, ticket.first + len(ticket.requests)):
            del self._tickets[number]
        self._settle(ticket.left)
        ticket.left = 0

    def _settle(self, texts: int) -> None:
        with self._changed:
            self._pending -= texts
