"""Follow a job through a connection that breaks; prints what came of it as JSON.

A process of its own, since Ray reads a process's token once and the tests' own Ray has another.
"""

import contextlib
import json
import socket
import sys
import threading

from retomaton_dist.errors import ClusterError
from retomaton_dist.runtime.submission import JobBoard

LINES = 8
# Lines of unequal length, some empty, so that a log which goes on at the wrong place is noticed.
PROGRAM = f"""
import time
for number in range({LINES}):
    print("x" * (number % 3) * number, number, flush=True)
    print(flush=True)
    time.sleep(0.5)
"""


class Wire:
    """A TCP connection between a port of this machine and another, that can be cut."""

    def __init__(self, host, port):
        self.target, self.open = (host, port), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            self.open += [near, far]
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            end.close()

    def cut(self):
        """Break what is open; whoever connects again is served again."""
        for end in self.open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def close(self):
        """Break what is open, and take no more."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()


def follow(address, way):
    """Cut the wire after the first lines of the log: once (`cut`), or for good (`close`)."""
    host, port = address.removeprefix("http://").split(":")
    wire = Wire(host, int(port))
    board = JobBoard(f"http://127.0.0.1:{wire.port}", patience=3.0)
    name = f"lines-{way}-{wire.port}"
    board.submit(name, ["python", "lines.py"], [], {"lines.py": PROGRAM.encode()})
    log, notes = [], []

    def write(text):
        log.append(text)
        if " 3\n" in "".join(log) and not notes:
            notes.append(way)
            getattr(wire, way)()

    found = {"notes": notes}
    try:
        found["status"] = board.follow(name, write, notes.append).status
    except ClusterError as error:
        found["error"] = str(error)
    direct = JobBoard(address)
    direct.stop(name)
    found["whole"] = direct._client.get_job_logs(name)
    return {**found, "log": "".join(log)}


if __name__ == "__main__":
    print(json.dumps(follow(*sys.argv[1:])))
