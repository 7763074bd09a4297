"""What a build of any size would take on any machines, without a corpus: `retomaton plan`.

Every stage has its own formula (`estimate`), the same as in a dry run; rates were measured
beforehand (`rates.py`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import psutil

from retomaton_dist.dry_run import rates as measured
from retomaton_dist.dry_run.rates import MEASURED, MEASURED_ON, read_rates, widened
from retomaton_dist.dry_run.tables import aligned, amount, count, duration, size
from retomaton_dist.lm.outline import body_parameters, load_config, shape_of
from retomaton_dist.lm.source import find_model
from retomaton_dist.settings import (
    BuildSettings,
    ClusterSettings,
    ModelSettings,
    PlanSettings,
    TokenizeSettings,
)
from retomaton_dist.settings.parsing import TABLES, split_keywords, with_tables
from retomaton_dist.stages.build import all_stages, check_fit, check_later
from retomaton_dist.stages.cost import ReadingCost, StageEstimate, Work
from retomaton_dist.stages.extract import choose_shape
from retomaton_dist.storage.automaton import MOST_STATES

# Documents longer than the context are read twice, shorter ones once; and bytes of text per token.
READ, TEXT_BYTES = 1.5, 4.0
VOCABULARY = 50_000
EXTRACT_UNIT = 1 << 15
CORE_MEMORY = 4e9
WEEK, DAY = 7 * 86_400.0, 86_400.0
HEAD = (
    "stage", "makes", "disk", "scratch", "reads", "passes", "network", "memory", "core-h", "GPU-h",
    "unit", "time",
)  # fmt: skip


GPU_STAGES = tuple(name for name, stage in all_stages() if stage.gpu)


@dataclass(frozen=True)
class KeySizes:
    """What a plan knows of a model."""

    name: str
    dimension: int
    parameters: float
    vocabulary: int


@dataclass(frozen=True)
class Planned:
    """Every stage with what it takes on the planned machines."""

    settings: PlanSettings
    keys: KeySizes
    cores: int
    node_memory: float
    stages: tuple[StageEstimate, ...]
    notes: tuple[str, ...]

    @property
    def disk(self) -> float:
        """Bytes of the finished store."""
        return sum(stage.disk for stage in self.stages)

    @property
    def peak_disk(self) -> float:
        """The most bytes that there ever are, what stages need only while they run among them."""
        left = [
            sum(stage.disk for stage in self.stages[: at + 1]) for at in range(len(self.stages))
        ]
        return max(so_far + stage.scratch for so_far, stage in zip(left, self.stages, strict=True))

    @property
    def seconds(self) -> float:
        """Of all stages, one after the other."""
        return sum(map(self.seconds_of, self.stages))

    def seconds_of(self, stage: StageEstimate) -> float:
        """Of one stage: computing or moving bytes, whichever takes longer.

        Bytes go through the network or, on one node, its disk, if memory does not hold them all.
        """
        moving, nodes = 0.0, self.settings.nodes
        if nodes > 1:
            moving = self.network(stage) / (nodes * self.settings.network / 8 * 1e9)
        elif self.disk > self.node_memory:
            moving = self.reads(stage) / measured.DISK_BYTES
        return max(stage.seconds, moving)

    @property
    def core_hours(self) -> float:
        """Of all CPU workers together."""
        return sum(self.hours(stage)[0] for stage in self.stages)

    @property
    def gpu_hours(self) -> float:
        """Of all GPUs together."""
        return sum(self.hours(stage)[1] for stage in self.stages)

    def hours(self, stage: StageEstimate) -> tuple[float, float]:
        """Core- and GPU-hours of a stage."""
        spent = (stage.core_seconds + stage.alone) / 3600
        by_gpu = self.settings.gpus > 0 and stage.stage in GPU_STAGES
        return (0.0, spent) if by_gpu else (spent, 0.0)

    def network(self, stage: StageEstimate) -> float:
        """Bytes between nodes: all reads and writes, for the store is shared, and exchanges."""
        if self.settings.nodes == 1:
            return 0.0
        written = stage.disk + 2 * stage.scratch
        return self.reads(stage) + written + stage.exchanged * self.settings.nodes

    def reads(self, stage: StageEstimate) -> float:
        """Bytes read of the store: what every unit reads only once per node that can hold it."""
        fits = 0 < 2 * stage.again < self.node_memory
        return stage.disk + self.settings.nodes * stage.again if fits else stage.reads

    def nodes_within(self, seconds: float) -> int:
        """Nodes of this kind that would finish in so much time; what one worker does stays."""
        alone = sum(stage.alone for stage in self.stages)
        shared = (self.seconds - alone) * self.settings.nodes
        known = alone < seconds and math.isfinite(shared)
        return math.ceil(shared / (seconds - alone)) if known else 0

    def warnings(self) -> list[str]:
        """One line for each thing that would go wrong."""
        found = [
            f"the longest unit of {stage.stage} ({stage.makes.split(':')[0]}) takes about "
            f"{duration(stage.unit)}, and --unit-timeout is {self.settings.unit_timeout:g} s: "
            f"raise it"
            for stage in self.stages
            if stage.unit > self.settings.unit_timeout
        ]
        largest = max(self.stages, key=lambda stage: stage.memory * stage.workers)
        needed = largest.memory * largest.workers / self.settings.nodes
        if needed > self.node_memory:
            found.append(
                f"{largest.stage} needs {size(needed)} on each node, which has "
                f"{size(self.node_memory)}: use fewer workers, or smaller units"
            )
        if self.settings.disk is not None and self.peak_disk > 1e9 * self.settings.disk:
            found.append(
                f"the disk is too small: {size(self.peak_disk)} are needed, "
                f"{size(1e9 * self.settings.disk)} are there"
            )
        found += [
            f"{stage.stage} ({stage.makes.split(':')[0]}) would take "
            f"{duration(self.seconds_of(stage))}: other settings are needed, or more nodes"
            for stage in self.stages
            if self.seconds_of(stage) > WEEK
        ]
        return [*self.notes, *(f"WARNING: {line}" for line in found)]

    def as_text(self) -> str:
        """A table for people."""
        chosen = self.settings
        head = (
            f"{chosen.tokens:,.0f} tokens, keys of {self.keys.dimension:,} numbers "
            f"({self.keys.name}), on {count(chosen.nodes, 'node')} of "
            f"{count(self.cores, 'core')} and {count(chosen.gpus, 'GPU')}"
        )
        rows = [HEAD, *map(self._cells, self.stages), self._totals()]
        day, week = self.nodes_within(DAY), self.nodes_within(WEEK)
        said = [f"{nodes:,} {name}" for nodes, name in ((day, "a day"), (week, "a week")) if nodes]
        within = f"  nodes of this kind to finish within: {', '.join(said) or 'none would'}"
        return "\n".join([head, *aligned(rows, (0, 1)), *self._basis(), within, *self.warnings()])

    def _cells(self, stage: StageEstimate) -> tuple[str, ...]:
        core, gpu = self.hours(stage)
        return (
            stage.stage, stage.makes, size(stage.disk), size(stage.scratch),
            size(self.reads(stage)), amount(stage.passes), size(self.network(stage)),
            size(stage.memory), amount(core), amount(gpu), duration(stage.unit),
            duration(self.seconds_of(stage)),
        )  # fmt: skip

    def _totals(self) -> tuple[str, ...]:
        stages = self.stages
        return (
            "in all", f"disk at its peak: {size(self.peak_disk)}", size(self.disk), "",
            size(sum(map(self.reads, stages))), "",
            size(sum(map(self.network, stages))), size(max(stage.memory for stage in stages)),
            amount(self.core_hours), amount(self.gpu_hours),
            duration(max(stage.unit for stage in stages)), duration(self.seconds),
        )  # fmt: skip

    def _basis(self) -> list[str]:
        source = self.settings.rates or f"built in, measured on {MEASURED_ON}"
        gpu = "; those of GPUs are assumed, not measured" if self.settings.gpus else ""
        return [
            f"  rates: {source}{gpu}",
            "  memory is that of one worker, without mapped files; unit is the longest; time is "
            "that of computing, or of moving bytes where that takes longer",
        ]


def plan(**settings: Any) -> Planned:
    """Say what a build of so many tokens would take on such machines; nothing is written.

    Keywords are the flags of `retomaton plan`; `tokens`, and `model` or `dimension`, are needed.
    Settings of stages are tables, as in `rd.build`: `cluster={"states": 500}`.
    """
    flags = {name: value for name, value in settings.items() if name not in TABLES}
    (chosen,) = split_keywords((PlanSettings,), flags, TABLES)
    return _planned(chosen, with_tables((), settings))


def _planned(settings: PlanSettings, build: BuildSettings) -> Planned:
    keys = _keys(settings)
    rates = widened(read_rates(settings.rates) if settings.rates else MEASURED, keys.dimension)
    cores = settings.cores or psutil.cpu_count() or 1
    memory = CORE_MEMORY * cores if settings.cores else float(psutil.virtual_memory().total)
    if settings.node_memory:
        memory = 1e9 * settings.node_memory
    shape = choose_shape(int(settings.tokens), keys.dimension, None)
    work = Work(shape, settings.nodes * cores, rates, keys.vocabulary)
    work = replace(
        work,
        text_bytes=TEXT_BYTES * settings.tokens,
        tokenizing=_tokenizing(settings, work),
        model=_model(settings, keys, work),
    )
    build, notes = _fitting(build, work)
    check_later(None, build, keys.dimension)
    check_fit(build, work.shape)
    faster = replace(rates, products=measured.GPU_PRODUCTS)
    on_gpus = replace(work, workers=settings.nodes * settings.gpus, rates=faster)
    stages = [
        part
        for _, stage in all_stages()
        for part in stage.estimate(build, on_gpus if stage.gpu and settings.gpus else work)
    ]
    return Planned(settings, keys, cores, memory, tuple(stages), notes)


def _keys(settings: PlanSettings) -> KeySizes:
    if settings.model is None:
        assert settings.dimension is not None, "checked when the settings were made"
        return KeySizes("no model named", settings.dimension, settings.parameters or 0, VOCABULARY)
    source = find_model(ModelSettings(model=settings.model), weights=False)
    config = load_config(source, trust_remote_code=False)
    shape = shape_of(config, source)
    counted = settings.parameters
    if counted is None:
        counted = float(body_parameters(config, source))
    dimension = settings.dimension or shape.dimension
    return KeySizes(settings.model, dimension, counted, shape.vocabulary)


def _fitting(settings: BuildSettings, work: Work) -> tuple[BuildSettings, tuple[str, ...]]:
    """As many states as there are numbers for, where the usual number is beyond that."""
    chosen, most = settings.of(ClusterSettings), MOST_STATES - 1
    if chosen.algorithm != "kmeans" or chosen.states or work.shape.entries // 100 <= most:
        return settings, ()
    note = f"note: a state's number has 32 bits, so there are {most:,} states at most"
    return settings.replaced(replace(chosen, states=most)), (note,)


def _tokenizing(settings: PlanSettings, work: Work) -> ReadingCost:
    read = TEXT_BYTES * settings.tokens
    unit = min(read, float(TokenizeSettings().unit_bytes)) / measured.TOKENISED_BYTES
    return ReadingCost(read / measured.TOKENISED_BYTES, unit, work.memory(2e8), work.workers)


def _model(settings: PlanSettings, keys: KeySizes, work: Work) -> ReadingCost:
    operations, by_gpu = 2 * keys.parameters * READ, settings.gpus > 0
    rate = measured.GPU_OPERATIONS if by_gpu else measured.CORE_OPERATIONS
    return ReadingCost(
        float(settings.tokens) * operations / rate,
        max(EXTRACT_UNIT, work.shape.chunk_entries) * operations / rate,
        work.memory(4 * keys.parameters + 4.0 * keys.vocabulary * keys.dimension),
        settings.nodes * settings.gpus if by_gpu else work.workers,
    )
