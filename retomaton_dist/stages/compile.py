"""The stage `compile/NAME`: entries in the order of (state, value, entry), ready to be mapped.

Five rounds of units, each over what the round before has finished:

    check    what is read of the datastore, the clustering and the codec: are its bytes sound?
    send     entries first..last-1: send them to the ranges of their states
    order    states first..last-1: sort what was sent    -> entries, values, states, codes
    invert   entries first..last-1: their slots were sent; send next slots to the slots' ranges
                                                         -> slots
    link     slots first..last-1: what was sent          -> nexts

What is sent goes through files (`storage/exchange.py`): every byte is read and written a fixed
number of times. A unit holds at most `unit_entries` entries and UNIT_BYTES in memory, whatever N,
its largest state and the number of states are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.pieces import SCAN, runs_within
from retomaton_dist.codec.named import codec_named, columns_of
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import BuildSettings, ClusterSettings, CompileSettings
from retomaton_dist.stages.cluster import clustering_named
from retomaton_dist.stages.codec import CodecPlan, estimate_codec
from retomaton_dist.stages.columns import ColumnsPlan, ColumnUnit, cut
from retomaton_dist.stages.compile_worker import CompileWorker
from retomaton_dist.stages.cost import StageEstimate, Work, columns_bytes
from retomaton_dist.stages.runner import Done, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.storage import columns, exchange
from retomaton_dist.storage.automaton import AUTOMATA, MOST_STATES, AutomatonShape
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.codec import CodecFiles
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.manifest import MANIFEST_NAME
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.states import States
from retomaton_dist.storage.store import Store

# Checking needs no memory: few, large units.
CHECK_ENTRIES = 1 << 21
# Of an entry whose place is being found.
PLACING_BYTES = 48
# Of entries with all that they have, in a unit.
UNIT_BYTES = 256 << 20


class CompileStage(BuildStage):
    """A clustering becomes an automaton; where the codec encodes keys, that comes first."""

    def check(self, settings: BuildSettings, dimension: int, store: Path | None) -> None:
        """Refuse codes that keys of this width cannot have, and a clustering that nobody makes."""
        chosen = settings.of(CompileSettings)
        codec_named(chosen.codec).sizes(1, dimension, chosen.code_size)
        if store is None:
            return
        wanted, made = chosen.states, settings.of(ClusterSettings).clustering
        there = Store.open(store).finished("cluster") if (store / MANIFEST_NAME).exists() else []
        if wanted != made and wanted not in there:
            raise BadInput(
                f"--states {wanted}: the build makes the clustering {made}, and there is no "
                f"{wanted} in {store}; leave `states` out, or make that clustering first"
            )

    def check_store(self, store: Store, settings: BuildSettings) -> None:
        """The clustering is read."""
        store.stage(f"cluster/{settings.of(CompileSettings).states}")

    def run(self, running: Running) -> None:
        """Encode keys and compile, or what is missing of it."""
        store, settings = running.store, running.settings.of(CompileSettings)
        clustering = store.stage(f"cluster/{settings.states}")
        if clustering.config.get("datastore") != store.stage("extract").digest:
            raise BadInput(
                f"{store.path}: clustering {settings.states} was made from another datastore; "
                f"cluster this one"
            )
        shape, codec, encoded = store.shape(), codec_named(settings.codec), None
        if codec.encodes:
            sizes = codec.sizes(shape.entries, shape.dimension, settings.code_size)
            encoded = CodecPlan(store, codec.name, sizes, running.session.settings.threads)
            run_stage(running.writer, encoded, running.session)
        plan = plan_compile(running.store, settings, encoded)
        run_stage(running.writer, plan, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:
        """Sources are checked and sent; what was sent is sorted; slots are sent there and back."""
        chosen, entries, rates = settings.of(CompileSettings), work.shape.entries, work.rates
        codec = codec_named(chosen.codec)
        sizes = codec.sizes(entries, work.shape.dimension, chosen.code_size)
        states = clustering_named(settings).states(settings.of(ClusterSettings), work.shape)
        numbers = work.shape.dimension, codec.name, sizes.code_size, sizes.cells
        shape = AutomatonShape(entries, states, *numbers)
        disk, row = columns_bytes(columns_of(shape)), codec.row_bytes(sizes)
        ids = shape.columns()["slots"][0].itemsize
        record, pair = ids + 8 + row, 2 * ids
        most = min(chosen.unit_entries, max(1, UNIT_BYTES // record), entries)
        unit = max(most, entries / exchange.MOST_DESTINATIONS)
        sent = entries * float(2 * pair + (record if entries > most else 0))
        # Ranges that do not fit in memory are divided once more, which is no part of what stays.
        divided = sent if unit > most else 0.0
        sources = entries * (16.0 + row)
        compiled = StageEstimate(
            stage="compile",
            makes=f"automata/{chosen.automaton}: {disk / entries:.0f} bytes per entry",
            disk=disk,
            memory=work.memory((float(PLACING_BYTES) + 2 * record) * most),
            workers=work.workers,
            core_seconds=entries / rates.placed
            + 2 * (sent + divided) / rates.swept
            + (sources + sent + divided + disk) / rates.hashed,
            unit=unit / rates.placed + 2 * record * unit / rates.swept,
            reads=2 * sources + disk + 2 * divided,
            scratch=sent,
        )
        encoded = [estimate_codec(codec.name, sizes, work)] if codec.encodes else []
        return [*encoded, compiled]


def plan_compile(
    store: Store, settings: CompileSettings, encoded: CodecPlan | None
) -> "CompilePlan":
    """Lay out an automaton whose clustering and codec are finished."""
    states = store.stage(f"cluster/{settings.states}").facts["states"]
    if states > MOST_STATES:
        raise BadInput(f"--states {settings.states}: {states:,} states, {MOST_STATES:,} at most")
    sizes = (encoded.sizes.code_size, encoded.sizes.cells) if encoded else (0, 0)
    keys = store.shape()
    shape = AutomatonShape(keys.entries, states, keys.dimension, settings.codec, *sizes)
    files = encoded.files if encoded else None
    return CompilePlan(store, settings, store.states(settings.states), shape, files)


@dataclass(frozen=True)
class CompilePlan(ColumnsPlan):
    """An automaton before it is compiled; `codes` is None where keys are copied."""

    settings: CompileSettings
    states: States
    shape: AutomatonShape
    codes: CodecFiles | None

    kinds = ("check", "send", "order", "invert", "link")

    @property
    def name(self) -> str:
        """After the automaton."""
        return f"compile/{self.settings.automaton}"

    @property
    def folder(self) -> Path:
        """Where the automaton lies."""
        return AUTOMATA.path(self.store.path, self.settings.automaton)

    @cached_property
    def config(self) -> Json:
        """What is compiled, by its contents, and in what pieces."""
        stage = self.store.stage
        return {
            "datastore": stage("extract").digest,
            "clustering": stage(f"cluster/{self.settings.states}").digest,
            "states": self.settings.states,
            "codec": self.shape.codec,
            "codes": stage(f"codec/{self.codes.folder.name}").digest if self.codes else None,
            "unit_entries": self.settings.unit_entries,
        }

    def filled(self) -> dict[str, tuple[Any, int]]:
        """All columns but the offsets and the codec's books."""
        small = {"offsets", *(self.codes.books if self.codes else ())}
        return {name: kind for name, kind in columns_of(self.shape).items() if name not in small}

    @cached_property
    def record(self) -> np.dtype[Any]:
        """An entry with all that goes into slot order."""
        kinds = columns_of(self.shape)
        rows = (name for name in self.filled() if name not in self.shape.columns())
        numbers = ((name, kinds[name][0], (kinds[name][1] // self.shape.entries,)) for name in rows)
        known = {"entries": kinds["entries"][0], "states": np.uint32, "values": np.int32}
        return np.dtype([*known.items(), *numbers])

    @property
    def most(self) -> int:
        """Entries that a unit has in memory."""
        fitting = max(1, UNIT_BYTES // self.record.itemsize)
        return min(self.settings.unit_entries, fitting)

    @property
    def range_size(self) -> int:
        """Entries, or slots, of a unit: more than are in memory if there are very many."""
        return max(self.most, -(-self.shape.entries // exchange.MOST_DESTINATIONS))

    @cached_property
    def units(self) -> list[ColumnUnit]:
        """All units, round by round."""
        entries, size = self.shape.entries, self.range_size
        files = [ColumnUnit("check", 0, entries, entries, stage=name) for name in self.read_files()]
        return [
            *files,
            *cut("check", entries, CHECK_ENTRIES),
            # What fits in memory need not be sent.
            *(cut("send", entries, size) if entries > self.most else ()),
            *self.orders(),
            *cut("invert", entries, size),
            *cut("link", entries, size),
        ]

    def orders(self) -> list[ColumnUnit]:
        """Units over ranges of states."""
        runs = runs_within(self.sizes(), self.range_size)
        return [ColumnUnit("order", *run, number) for number, run in enumerate(runs)]

    def read_files(self) -> dict[str, list[str]]:
        """Files that are read besides the datastore's, by the stage that wrote them."""
        read: list[tuple[str, Path, Sequence[str]]] = []
        if self.states.algorithm != "none":
            read.append(("cluster", self.states.folder, ("state_of_entry", "sizes")))
        if self.codes is not None:
            read.append(("codec", self.codes.folder, (*self.codes.books, *self.codes.rows)))
        return {
            f"{kind}/{folder.name}": [
                (folder / f"{name}.arrow").relative_to(self.store.path).as_posix() for name in names
            ]
            for kind, folder, names in read
        }

    def sizes(self) -> Iterator[NDArray[np.int64]]:
        """Members of each state, so many states at a time."""
        for first in range(0, self.states.count, SCAN):
            yield self.sizes_of(first, min(first + SCAN, self.states.count))

    def sizes_of(self, first: int, last: int) -> NDArray[np.int64]:
        """Members of each of the states first..last-1."""
        if self.states.algorithm == "none":
            return np.ones(last - first, np.int64)
        return self.states.sizes[first:last]

    def worker(self) -> Callable[[], CompileWorker]:
        """Fills ranges of the columns."""
        firsts = [unit.first for unit in self.units if unit.kind == "order"]
        return partial(CompileWorker, self, np.array(firsts, np.int64))

    def write_small(self) -> dict[str, FileDigest]:
        """Write the columns that units do not fill."""
        path, kind = self.folder / "offsets.arrow", self.shape.columns()["offsets"][0]
        written = {"offsets": columns.write_blocks(path, "offsets", kind, self._offsets())}
        for name in self.codes.books if self.codes else ():
            assert self.codes is not None
            flat = {name: self.codes.book(name)}
            written[name] = columns.write_columns(self.folder / f"{name}.arrow", flat)
        return written

    def _offsets(self) -> Iterator[NDArray[np.int64]]:
        """First slot of each state, then N: there may be as many states as entries."""
        end = np.zeros(1, np.int64)
        yield end
        for sizes in self.sizes():
            ends = end + np.cumsum(sizes)
            yield ends
            end = ends[-1:]

    def finish(self, units: Sequence[Record]) -> Done:
        """Write the small columns, move the filled ones into place, and describe them."""
        written = {**self.write_small(), **self.in_place()}
        files = AUTOMATA.describe(self.folder, self.shape, written)
        total = sum(digest.bytes for digest in written.values())
        facts = {**self.shape.__dict__, "bytes_per_entry": total / self.shape.entries}
        return Done(files, {**facts, **self.traffic(units, written)})
