"""The stage `tokenize`: text becomes documents of tokens, each with its place in the source."""

import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial

from retomaton_dist.corpus.pieces import Piece, choose_split, plan_units
from retomaton_dist.corpus.sources import Source, find_sources, fingerprint
from retomaton_dist.errors import CorpusError
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.settings import CorpusSettings, ModelSettings, TokenizeSettings
from retomaton_dist.stages.runner import Plan, begin, run_missing
from retomaton_dist.stages.tokenize_worker import Pieces, Reader, TokenizeWorker
from storage import corpus, records
from storage.manifest import Stage
from storage.store import StoreWriter

STAGE = "tokenize"
_COUNTS = ("documents", "tokens", "entries", "skipped")


@dataclass(frozen=True)
class TokenizePlan:
    """What is to be tokenised and how; `reader` is what a worker needs to do it."""

    plan: Plan[Pieces]
    sources: list[Source]
    tokenizer: Tokenizer
    reader: Reader


def plan_tokenize(
    text: CorpusSettings, model: ModelSettings, settings: TokenizeSettings
) -> TokenizePlan:
    """Find and fingerprint the corpus, and cut it into units; nothing is written."""
    spec, tokenizer = identify(model, weights=False)
    sources = find_sources(text.corpus)
    split = choose_split(text.split, text.field, sources)
    units = [
        [(sources[piece.source], piece) for piece in unit]
        for unit in plan_units(sources, split, settings.unit_bytes)
    ]
    end = tokenizer.eos if settings.end == "eos" else None
    config = {
        "corpus": fingerprint(sources),
        "split": str(split),
        "field": split.field if split.kind == "record" else None,
        "tokenizer": tokenizer.fingerprint,
        "prefix": tokenizer.bos,
        "end": end,
        "unit_bytes": settings.unit_bytes,
    }
    pieces = Counter(piece.source for unit in units for _, piece in unit)
    work = [
        sum(_bytes(source, piece, pieces[piece.source]) for source, piece in unit) for unit in units
    ]
    plan = Plan(STAGE, config, units, work, "bytes")
    return TokenizePlan(plan, sources, tokenizer, Reader(split, end, spec))


def tokenize(writer: StoreWriter, planned: TokenizePlan, session: Session) -> Stage:
    """Run the stage, or what is missing of it. Bad text undoes it: another corpus may follow."""
    plan = planned.plan
    make = partial(TokenizeWorker, writer.path.resolve(), plan.config_hash, planned.reader)
    try:
        missing = begin(writer, plan, session)
        if missing is not None:
            run_missing(plan, missing, make, session)
            _finish(writer, planned)
    except CorpusError:
        writer.abandon(STAGE)
        raise
    finally:
        if not _running(writer):
            shutil.rmtree(writer.path / corpus.PARTS, ignore_errors=True)
    return writer.manifest.stages[STAGE]


def _finish(writer: StoreWriter, planned: TokenizePlan) -> None:
    numbers = range(len(planned.plan.units))
    units = [
        records.read(writer.path, STAGE, unit, planned.plan.config_hash).facts for unit in numbers
    ]
    totals = {name: sum(facts[name] for facts in units) for name in _COUNTS}
    if not totals["entries"]:
        raise CorpusError(
            f"the corpus holds no token to make an entry of: {len(planned.sources)} files, "
            f"{totals['skipped']} empty documents"
        )
    files = corpus.merge(writer.path, len(units))
    files |= corpus.write_sources(writer.path, [asdict(source) for source in planned.sources])
    facts = {
        **totals,
        "sources": len(planned.sources),
        "source_bytes": sum(source.bytes for source in planned.sources),
        "first_source": planned.sources[0].path,
        "tokenizer": planned.tokenizer.name,
        "prefix": planned.tokenizer.bos,
        "vocabulary": planned.tokenizer.vocabulary,
    }
    writer.finish_merged(STAGE, files, facts)


def _running(writer: StoreWriter) -> bool:
    stage = writer.manifest.stages.get(STAGE)
    return stage is not None and not stage.done


def _bytes(source: Source, piece: Piece, pieces: int) -> float:
    """Bytes of source in one of its pieces; row groups count as equal shares of their file."""
    return source.bytes / pieces if source.kind == "parquet" else piece.stop - piece.start
