"""Progress of long work: a bar for people, lines for logs, JSON lines for machines."""

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

Item = TypeVar("Item")
Facts = Mapping[str, float | int | str]
NOTHING: Facts = MappingProxyType({})
LINE_SECONDS = 5.0


class Progress:
    """Counts work and time. Only what this run did tells how fast the rest will go.

    The first unit also pays for what is done once, such as compiling kernels: it counts only until
    the others have taken half as long.
    """

    def __init__(self, label: str, total: float, unit: str, done: float = 0) -> None:
        self.label, self.total, self.unit, self.done = label, total, unit, done
        self._before = done
        self._start = time.monotonic()
        self._warm: tuple[float, float] | None = None

    def begin(self) -> None:
        """Start the clock anew: what went before was preparation, and would spoil the rate."""
        self._start = time.monotonic()

    def advance(self, work: float, facts: Facts = NOTHING) -> None:
        """Count `work` more of the total as done; `facts` are shown beside it."""
        self.done += work
        if self._warm is None:
            self._warm = self.done, self.seconds
        self._show(facts)

    def close(self) -> None:
        """End the display."""

    @property
    def seconds(self) -> float:
        """Since the work began in this run."""
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """Work per second in this run, without its warm-up as soon as that can be told."""
        done, seconds = self._warm or (self._before, 0.0)
        if self.done == done or self.seconds - seconds < seconds / 2:
            done, seconds = self._before, 0.0
        return (self.done - done) / max(self.seconds - seconds, 1e-9)

    @property
    def left(self) -> float:
        """Seconds to go; infinite as long as nothing is known."""
        return (self.total - self.done) / self.rate if self.rate else math.inf

    def _show(self, facts: Facts) -> None:
        """Show nothing: the mode `none`."""


class _Json(Progress):
    def _show(self, facts: Facts) -> None:
        line = {"stage": self.label, "done": self.done, "total": self.total, "unit": self.unit}
        line["seconds"] = round(self.seconds, 3)
        line["seconds_left"] = round(self.left, 1) if math.isfinite(self.left) else None
        say(json.dumps({**line, **facts}))


class _Lines(Progress):
    _shown = -math.inf

    def _show(self, facts: Facts) -> None:
        if self.done < self.total and self.seconds - self._shown < LINE_SECONDS:
            return
        self._shown = self.seconds
        share = self.done / max(self.total, 1e-9)
        say(
            f"{self.label}: {self.done:,.0f} of {self.total:,.0f} {self.unit} ({share:.0%}), "
            f"{_number(self.rate)} {self.unit}/s, {clock(self.left)} left{_joined(facts)}"
        )


class _Bar(Progress):
    def __init__(self, label: str, total: float, unit: str, done: float = 0) -> None:
        from tqdm import tqdm

        super().__init__(label, total, unit, done)
        scale = {"unit": f" {unit}", "unit_scale": True, "dynamic_ncols": True}
        self._bar = tqdm(desc=label, total=total, initial=done, file=sys.stderr, **scale)

    def begin(self) -> None:
        super().begin()
        self._bar.unpause()

    def _show(self, facts: Facts) -> None:
        self._bar.set_postfix_str(_joined(facts).removeprefix(", "), refresh=False)
        self._bar.update(self.done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


# Of each `counted` that is under way, the innermost last.
_counting: list[Progress] = []
_MODES = {"bar": _Bar, "lines": _Lines, "json": _Json, "none": Progress}


@contextlib.contextmanager
def showing(
    mode: str | None, label: str, total: float, unit: str, done: float = 0
) -> Iterator[Progress]:
    """Show the progress of a block; `done` was finished by earlier runs."""
    chosen = mode or ("bar" if sys.stderr.isatty() else "lines")
    with contextlib.closing(_MODES[chosen](label, total, unit, done)) as progress:
        yield progress


def counted(items: Sequence[Item], mode: str | None, label: str, unit: str) -> Iterator[Item]:
    """The items, with progress shown as each of them, or a part of one (`part_done`), is done."""
    with showing(mode, label, len(items), unit) as progress:
        for number, item in enumerate(items):
            _counting.append(progress)
            try:
                yield item
            finally:
                _counting.pop()
            progress.done = number
            progress.advance(1)


def part_done(part: int, parts: int, name: str) -> None:
    """Say how far the present item of `counted` has come; without one, nothing is shown."""
    if _counting:
        progress = _counting[-1]
        ahead = int(progress.done) + 0.99 * part / parts - progress.done
        progress.advance(max(0.0, ahead), {name: f"{part} of {parts}"})


def clock(seconds: float) -> str:
    """Seconds as people read them: 1:02:03, 2:03, or ? if unknown."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _joined(facts: Facts) -> str:
    return "".join(f", {value} {name.replace('_', ' ')}" for name, value in facts.items())


def say(line: str) -> None:
    """Print a line for people, to stderr."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress is for people
