"""The stage `extract`: the model reads the corpus once and leaves a key per entry.

Batches are formed inside a unit, so that what a unit holds never depends on who else works.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from retomaton_dist.errors import ClusterError, ModelError
from retomaton_dist.lm.identity import ModelIdentity, ModelSpec
from retomaton_dist.lm.model import choose_dtype
from retomaton_dist.lm.model_reader import ModelReader, WindowReader
from retomaton_dist.lm.outline import ModelOutline
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import BuildSettings, ExtractSettings, ModelSettings
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.runner import Done, Plan, chunk_units, chunk_work, run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.stages.tokenize import corpus_bytes
from retomaton_dist.storage import datastore
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.datastore import Keys, Shape
from retomaton_dist.storage.files import FileDigest
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import Store

STAGE = "extract"
BATCH_TOKENS = {"cpu": 4096, "cuda": 32_768}
# A unit recomputes up to context - stride tokens of a document that it enters in the middle:
# 32 times as many entries keep that under 3 %, as long as there are still units to share out.
UNIT_FACTOR = 32
LEAST_UNITS = 16


@dataclass(frozen=True)
class Windowing:
    """Settings of extraction with every `auto` found out. All of it can change results."""

    device: str
    dtype: str
    context: int
    stride: int
    batch_tokens: int


def resolve(
    settings: ExtractSettings, model: ModelSettings, outlined: ModelOutline, session: Session
) -> Windowing:
    """Fill in what is `auto` and refuse what cannot be."""
    device = model.device or ("cuda" if session.has_gpu() else "cpu")
    if device == "cuda" and not session.has_gpu():
        raise ClusterError("--device cuda: there is no GPU; use --device cpu, or join a cluster")
    context, stride = resolve_windows(settings.context, settings.stride, outlined.max_context)
    if settings.chunk_entries is not None:
        datastore.check_chunk_entries(settings.chunk_entries)
    dtype = str(choose_dtype(model.dtype, device)).removeprefix("torch.")
    batch_tokens = settings.batch_tokens or BATCH_TOKENS[device]
    return Windowing(device, dtype, context, stride, batch_tokens)


def choose_shape(entries: int, dimension: int, chunk_entries: int | None) -> Shape:
    """Shape of the datastore for so many entries."""
    chosen = chunk_entries or datastore.choose_chunk_entries(entries, dimension)
    return Shape(entries, dimension, chosen)


def choose_unit_chunks(shape: Shape, windowing: Windowing) -> int:
    """Chunks per unit: enough that the seams cost little, few enough to share out."""
    wanted = UNIT_FACTOR * (windowing.context - windowing.stride)
    return max(1, min(-(-wanted // shape.chunk_entries), shape.chunks // LEAST_UNITS))


@dataclass(frozen=True)
class ExtractPlan(Plan[range]):
    """A tokenised corpus, the model that reads it, and how.

    `lm` is the model whose probabilities will be mixed, if that is another one: it is only noted.
    """

    store: Store
    outlined: ModelOutline
    windowing: Windowing
    chunk_entries: int | None
    threads: int
    lm: ModelIdentity | None = None

    @property
    def name(self) -> str:
        """There is one per store."""
        return STAGE

    @property
    def gpu(self) -> bool:  # type: ignore[override]
        """As the windowing says."""
        return self.windowing.device == "cuda"

    @property
    def loads(self) -> ModelSpec:  # type: ignore[override]
        """The model that reads."""
        return self.outlined.spec

    @cached_property
    def corpus(self) -> Corpus:
        """What is read."""
        return self.store.corpus()

    @cached_property
    def shape(self) -> Shape:
        """Of the datastore that is made."""
        return choose_shape(self.corpus.entries, self.outlined.dimension, self.chunk_entries)

    @cached_property
    def config(self) -> Json:
        """The corpus, the model by its contents, and all that its arithmetic depends on."""
        return {
            "corpus": self.store.stage("tokenize").digest,
            "model": self.outlined.spec.identity.weights,
            "key": self.outlined.spec.key,
            **self.windowing.__dict__,
            "threads": self.threads,
            "chunk_entries": self.shape.chunk_entries,
            "unit_chunks": choose_unit_chunks(self.shape, self.windowing),
            **({"lm": self.lm.weights} if self.lm else {}),
        }

    @cached_property
    def units(self) -> list[range]:
        """Whole chunks."""
        return chunk_units(self.shape, self.config["unit_chunks"] * self.shape.chunk_entries)

    @cached_property
    def work(self) -> list[float]:
        """Entries of each unit."""
        return chunk_work(self.shape, self.units)

    def worker(self) -> Callable[[], "ExtractWorker"]:
        """Loads the model and runs it; a corpus that was altered is refused."""
        check_stage(self.store, "tokenize")
        chosen = self.windowing
        windows = WindowReader(self.corpus, chosen.context, chosen.stride, chosen.batch_tokens)
        return partial(
            ExtractWorker, self.shape, KeyReader(windows, self.outlined.spec, chosen.device)
        )

    def prepare(self) -> None:
        """Write the metadata that chunks are written under."""
        datastore.create(self.store.path, self.shape)

    def finish(self, units: Sequence[Record]) -> Done:  # noqa: ARG002 - chunks stay as they are
        """Nothing is joined: a unit's chunks are the datastore's."""
        facts = {
            "entries": self.shape.entries,
            "dimension": self.shape.dimension,
            "chunk_entries": self.shape.chunk_entries,
            "documents": len(self.corpus),
            "model": self.outlined.spec.identity.name,
            "architecture": self.outlined.architecture,
            "identity": self.outlined.spec.identity.as_facts(),
            **({"lm": self.lm.as_facts()} if self.lm else {}),
        }
        return Done(datastore.create(self.store.path, self.shape), facts)

    def shown(self, summed: Mapping[str, float], seconds: float) -> Json:
        """Speed, and what was computed for nothing."""
        computed, padded = summed["computed_tokens"], summed["padded_tokens"]
        return {
            "tokens/s": f"{computed / max(seconds, 1e-9):,.0f}",
            "padding": f"{1 - computed / padded:.1%}",
        }


class ExtractStage(BuildStage):
    """The model reads the corpus that `tokenize` has made."""

    gpu = True

    def run(self, running: Running) -> None:
        """Read what is missing."""
        plan = ExtractPlan(
            running.store,
            running.text.outlined,
            running.text.windowing,
            running.settings.of(ExtractSettings).chunk_entries,
            running.session.settings.threads,
            running.text.lm,
        )
        run_stage(running.writer, plan, running.session)

    def estimate(self, settings: BuildSettings, work: Work) -> list[StageEstimate]:  # noqa: ARG002
        """What the model takes was measured, or follows from its size; chunks are whole."""
        shape = work.shape
        disk = shape.chunks * shape.chunk_entries * (2.0 * shape.dimension + 4 + 8)
        makes = f"datastore.zarr: {shape.chunks:,} chunks"
        return [work.model.estimate("extract", makes, disk, corpus_bytes(work))]


class KeyReader(ModelReader):
    """Computes the keys of any range of entries."""

    def keys(self, first: int, last: int) -> tuple[Keys, dict[str, float]]:
        """Keys of the entries first..last-1, and how many tokens were computed for them."""
        keys = np.empty((last - first, self.lm.dimension), np.float16)
        computed = padded = 0
        for inputs, kept in self.windows.batches(self.windows.spans(first, last)):
            hidden = self.lm.keys(torch.from_numpy(inputs))
            rounded = hidden.to(torch.float16).cpu().numpy()
            for row, item in enumerate(kept):
                place = slice(item.start, item.start + item.last - item.first)
                keys[item.first : item.last] = rounded[row, place]
                self._check(hidden[row, place], rounded[row, place], first + item.first)
            computed += sum(item.window.length for item in kept)
            padded += inputs.size
        return keys, {"computed_tokens": computed, "padded_tokens": padded}

    def _check(self, exact: Tensor, rounded: Keys, first: int) -> None:
        """Refuse keys that float16 does not hold, and say what would help."""
        sound = np.isfinite(rounded).all(axis=1)
        if sound.all():
            return
        row = int(np.argmin(sound))
        document = self.corpus[self.corpus.document_of(first + row)]
        largest = float(exact[row].float().abs().max())
        raise ModelError(
            f"the key of entry {first + row} (document {document.name!r} of {document.source}, "
            f"position {first + row - document.first_entry}) {_unfit(largest, exact.dtype)}"
        )


def _unfit(largest: float, dtype: torch.dtype) -> str:
    if math.isfinite(largest):
        return (
            f"holds {largest:,.0f}, and float16's range ends at 65,504: use another --key "
            f"(last_ffn_input and final_hidden are normalised in most models), or scale the "
            f"weights that make this one"
        )
    if dtype == torch.float32:
        return "is NaN or infinite already in float32: the model's weights are damaged"
    return "is NaN or infinite: the model overflows in its own arithmetic; use --dtype float32"


class ExtractWorker:
    """Writes the chunks of the datastore that units consist of."""

    def __init__(self, shape: Shape, reader: KeyReader) -> None:
        self._shape, self._reader = shape, reader
        if reader.lm.dimension != shape.dimension:
            raise ModelError(
                f"the keys of {reader.lm.name!r} have {reader.lm.dimension} numbers, not "
                f"{shape.dimension} as its config says; try another --key"
            )

    def run(self, number: int, payload: range) -> Done:  # noqa: ARG002 - chunks have their own
        """Write keys, values and pointers of the unit's chunks."""
        begin, end = self._shape.entry_range(payload)
        (keys, counts), corpus = self._reader.keys(begin, end), self._reader.corpus
        files: dict[str, FileDigest] = {}
        for chunk in payload:
            first, last = self._shape.chunk_range(chunk)
            some, values = keys[first - begin : last - begin], corpus.values(first, last)
            pointers = corpus.pointers(first, last)
            files |= datastore.write_chunk(corpus.store, chunk, some, values, pointers)
        return Done(files, {**counts, "entries": end - begin}, counts)
