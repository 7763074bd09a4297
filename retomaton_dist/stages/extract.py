"""The stage `extract`: the model reads the corpus once and leaves a key per entry."""

from dataclasses import dataclass
from functools import partial

from retomaton_dist.errors import BadInput, ClusterError
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.model import choose_dtype
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.reading import WindowReader
from retomaton_dist.lm.tokenizer import Tokenizer, check_vocabulary
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.settings import ExtractSettings, ModelSettings
from retomaton_dist.stages.chunk_units import chunk_units
from retomaton_dist.stages.extract_worker import ExtractWorker, KeyReader
from retomaton_dist.stages.runner import Plan, begin, run_missing
from storage import datastore
from storage.canonical import Json
from storage.corpus import Corpus
from storage.datastore import Shape
from storage.manifest import Stage
from storage.store import Store, StoreWriter

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
    batch_tokens = BATCH_TOKENS[device] if settings.batch_tokens is None else settings.batch_tokens
    if batch_tokens < 1:
        raise BadInput(f"--batch-tokens {batch_tokens}: at least 1 is needed")
    if settings.chunk_entries is not None:
        datastore.check_chunk_entries(settings.chunk_entries)
    dtype = str(choose_dtype(model.dtype, device)).removeprefix("torch.")
    return Windowing(device, dtype, context, stride, batch_tokens)


def check_model(model: ModelSettings, tokenizer: Tokenizer) -> ModelOutline:
    """Outline the model and refuse one that the tokenizer does not match."""
    outlined = outline(identify(model)[0])
    check_vocabulary(tokenizer, outlined.vocabulary)
    return outlined


def choose_shape(entries: int, dimension: int, chunk_entries: int | None) -> Shape:
    """Shape of the datastore for so many entries."""
    chosen = chunk_entries or datastore.choose_chunk_entries(entries, dimension)
    return Shape(entries, dimension, chosen)


def choose_unit_chunks(shape: Shape, windowing: Windowing) -> int:
    """Chunks per unit: enough that the seams cost little, few enough to share out."""
    wanted = UNIT_FACTOR * (windowing.context - windowing.stride)
    return max(1, min(-(-wanted // shape.chunk_entries), shape.chunks // LEAST_UNITS))


def extract(
    writer: StoreWriter,
    model: ModelSettings,
    outlined: ModelOutline,
    windowing: Windowing,
    chunk_entries: int | None,
    session: Session,
) -> Stage:
    """Run the stage over the store's tokenised corpus, or what is missing of it."""
    corpus = Store.open(writer.path.resolve()).corpus()
    shape = choose_shape(corpus.entries, outlined.dimension, chunk_entries)
    unit_chunks = choose_unit_chunks(shape, windowing)
    plan = _plan(writer, model, outlined, windowing, shape, unit_chunks, session.settings.threads)
    windows = WindowReader(corpus, windowing.context, windowing.stride, windowing.batch_tokens)
    reader = KeyReader(windows, outlined.spec, windowing.device)
    make = partial(ExtractWorker, plan.config_hash, shape, unit_chunks, reader)
    missing = begin(writer, plan, session)
    if missing is not None:
        files = datastore.create(writer.path, shape)
        run_missing(plan, missing, make, session, _shown)
        writer.finish(STAGE, files, _facts(shape, corpus, outlined))
    return writer.manifest.stages[STAGE]


def _plan(
    writer: StoreWriter,
    model: ModelSettings,
    outlined: ModelOutline,
    windowing: Windowing,
    shape: Shape,
    unit_chunks: int,
    threads: int,
) -> Plan[range]:
    config: Json = {
        "corpus": writer.manifest.require("tokenize", writer.path).digest,
        "model": outlined.spec.identity.weights,
        "key": model.key,
        **windowing.__dict__,
        "threads": threads,
        "chunk_entries": shape.chunk_entries,
        "unit_chunks": unit_chunks,
    }
    units, work = chunk_units(shape, unit_chunks * shape.chunk_entries)
    return Plan(STAGE, config, units, work, "entries", gpu=windowing.device == "cuda")


def _facts(shape: Shape, corpus: Corpus, outlined: ModelOutline) -> Json:
    return {
        "entries": shape.entries,
        "dimension": shape.dimension,
        "chunk_entries": shape.chunk_entries,
        "documents": len(corpus),
        "model": outlined.spec.identity.name,
        "architecture": outlined.architecture,
    }


def _shown(summed: Json, seconds: float) -> Json:
    computed, padded = summed["computed_tokens"], summed["padded_tokens"]
    return {
        "tokens/s": f"{computed / max(seconds, 1e-9):,.0f}",
        "padding": f"{1 - computed / padded:.1%}",
    }
