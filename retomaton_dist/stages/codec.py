"""The stage `codec/NAME`: codes of all entries, from which walking measures distances.

First one unit trains the codebooks on a sample of keys; then units of whole chunks are encoded.
"""

import shutil
from dataclasses import dataclass
from functools import partial

from retomaton_dist.codec.training import SAMPLE, choose_cells, choose_code_size
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.stages.chunk_units import chunk_units
from retomaton_dist.stages.codec_worker import CodecWorker
from retomaton_dist.stages.rounds import run_rounds
from retomaton_dist.stages.runner import Plan, begin
from storage import codec, preallocated, records
from storage.canonical import Json
from storage.codec import CodecFiles
from storage.manifest import Stage
from storage.store import Store, StoreWriter

UNIT_ENTRIES = 1 << 17


@dataclass(frozen=True)
class CodecRecipe:
    """Settings of the codec with every `auto` found out."""

    code_size: int
    cells: int
    sample: int

    @property
    def name(self) -> str:
        """What the codec is called in the store."""
        return f"pq{self.code_size}"


def resolve(entries: int, dimension: int, code_size: int | None) -> CodecRecipe:
    """Choose what is `auto`; refuse parts that do not divide the keys."""
    size = choose_code_size(dimension, code_size)
    return CodecRecipe(size, choose_cells(entries), min(entries, SAMPLE))


def encode(writer: StoreWriter, recipe: CodecRecipe, session: Session) -> Stage:
    """Run the stage, or what is missing of it."""
    stage = f"codec/{recipe.name}"
    store = Store.open(writer.path.resolve())
    if stage in store.manifest.stages and store.manifest.stages[stage].done:
        # Left behind if the run that finished the stage was killed before it could remove them.
        records.discard(store.path, stage)
        return store.manifest.stages[stage]
    shape = store.datastore().shape
    units, work = chunk_units(shape, UNIT_ENTRIES)
    config: Json = {
        "datastore": writer.manifest.require("extract", writer.path).digest,
        **recipe.__dict__,
        "threads": session.settings.threads,
    }
    payloads: list[range | None] = [None, *units]
    plan = Plan(stage, config, payloads, [recipe.sample, *work], "entries")
    missing = begin(writer, plan, session)
    if missing is not None:
        folder = codec.folder_of(store.path, recipe.name)
        files = CodecFiles(folder, shape.entries, shape.dimension, recipe.code_size, recipe.cells)
        make = partial(CodecWorker, store, files, recipe.sample, plan.config_hash)
        if len(missing) == len(payloads):
            shutil.rmtree(folder, ignore_errors=True)
            preallocated.preallocate(files.parts, files.columns())
        training, others = [[0], missing[1:]] if 0 in missing else [[], missing]
        run_rounds(plan, [training, others], make, session)
        _finish(writer, stage, files, plan)
    return writer.manifest.stages[stage]


def _finish(writer: StoreWriter, stage: str, files: CodecFiles, plan: Plan[range | None]) -> None:
    trained = records.read(writer.path, stage, 0, plan.config_hash)
    written = dict(trained.files)
    inside = files.folder.relative_to(writer.path.resolve()).as_posix()
    for name, digest in preallocated.finish(files.parts, files.folder, files.columns()).items():
        written[f"{inside}/{name}.arrow"] = digest
    units = [
        records.read(writer.path, stage, unit, plan.config_hash).facts
        for unit in range(1, len(plan.units))
    ]
    facts = {
        "entries": files.entries,
        "dimension": files.dimension,
        "code_size": files.code_size,
        "cells": files.cells,
        "error": sum(unit["error"] for unit in units) / sum(unit["length"] for unit in units),
    }
    writer.finish_merged(stage, written, facts)
    shutil.rmtree(files.parts, ignore_errors=True)
