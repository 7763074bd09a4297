"""What a store holds, for people and for machines: the contents of `retomaton inspect`."""

import contextlib
import textwrap
from collections.abc import Iterator
from pathlib import Path

from retomaton_dist.dry_run.tables import count
from retomaton_dist.errors import DamagedStore
from retomaton_dist.registry import load
from retomaton_dist.settings.stages import declared
from retomaton_dist.storage import lock
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.manifest import MANIFEST_NAME, VERSION
from retomaton_dist.storage.store import Store

# Of the column of stages.
NARROWEST = 16
# Times the average size that makes a state worth a warning: where there are few states, all of them
# have several percent.
GIANT = 10
# Facts of `tokenize` about the corpus.
CORPUS = ("sources", "source_bytes", "first_source")
# Of what is no stage of a build by itself.
_FOLDERS = {"codec": "codecs", "calibrate": "calibrations"}


@contextlib.contextmanager
def _as_stages_write(store: Path) -> Iterator[None]:
    """Turn facts that no stage writes, of a manifest that is whole, into one line."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DamagedStore(
            f"{store / MANIFEST_NAME}: its facts are not what stages write ({error!r:.80}); "
            f"restore it from a copy, or build the store anew in another folder"
        ) from error


def describe(store: Store) -> Json:
    """All facts about a store from its manifest alone; folders are scanned only while running."""
    with _as_stages_write(store.path):
        return _described(store)


def _described(store: Store) -> Json:
    facts = {name: stage.facts for name, stage in store.manifest.stages.items()}
    tokenize, extract = facts.get("tokenize", {}), facts.get("extract", {})
    return {
        "path": str(store.path),
        "format_version": VERSION,
        "entries": extract.get("entries", tokenize.get("entries")),
        "dimension": extract.get("dimension"),
        "documents": tokenize.get("documents"),
        "tokens": tokenize.get("tokens"),
        "skipped_documents": tokenize.get("skipped"),
        "corpus": {name: tokenize[name] for name in CORPUS} if tokenize else None,
        "model": extract.get("model"),
        "architecture": extract.get("architecture"),
        "lm": extract.get("lm", {}).get("name"),
        "tokenizer": tokenize.get("tokenizer"),
        "writer": lock.owner(store.path),
        "bytes": _bytes(store),
        "stages": {name: _stage(store, name) for name in store.manifest.stages},
    }


def _stage(store: Store, name: str) -> Json:
    stage = store.manifest.stages[name]
    done = stage.units if stage.done else len(store.units(name))
    return {
        "status": stage.status,
        "digest": stage.digest,
        "config": stage.config,
        "config_hash": stage.config_hash,
        "units": stage.units,
        "units_done": done,
        "facts": stage.facts,
        "made_with": stage.made_with,
    }


def _bytes(store: Store) -> Json:
    parts: Json = {}
    for name, stage in store.manifest.stages.items():
        kind, *rest = name.split("/")
        known = declared(name)
        folder = "/".join([known.folder if known else _FOLDERS.get(kind, kind), *rest])
        parts[folder] = stage.bytes if stage.done else _size(store.path / folder)
    if store.is_done("extract"):
        facts = store.stage("extract").facts
        rows, width = facts["entries"], facts["dimension"]
        sizes = {"keys": 2 * rows * width, "values": 4 * rows, "pointers": 8 * rows}
        parts |= {f"datastore.zarr/{name}": size for name, size in sizes.items()}
    if "prune" in store.manifest.stages:
        parts["datastore.zarr"] -= parts["datastore.zarr/keys"]
        parts["datastore.zarr/keys"] = 0
    top = [size for name, size in parts.items() if not name.startswith("datastore.zarr/")]
    return {**parts, "total": sum(top)}


def _size(folder: Path) -> int:
    """Bytes of the files in a folder; those of a writer at work come and go."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def as_text(facts: Json) -> str:
    """The same for people."""
    with _as_stages_write(Path(facts["path"])):
        return _shown(facts)


def _shown(facts: Json) -> str:
    lines = [str(facts["path"]), *_headline(facts), ""]
    width = max([NARROWEST, *map(len, facts["stages"])])
    for name, stage in facts["stages"].items():
        if stage["status"] == "done":
            state = f"done     {stage['digest'][:16]}{_about(name, stage['facts'])}"
        else:
            state = f"running  {stage['units_done']:,} of {stage['units']:,} units"
        lines.append(f"  {name:<{width}} {state}")
    sections = [_section(name, stage) for name, stage in facts["stages"].items()]
    lines += ["", *(f"{section}\n" for section in sections if section)]
    lines += [f"  {_human(size):>10}  {part}" for part, size in facts["bytes"].items()]
    return "\n".join(lines)


def _headline(facts: Json) -> list[str]:
    corpus = facts["corpus"] or {}
    rows = {
        "corpus": corpus
        and f"{count(corpus['sources'], 'file')}, {_human(corpus['source_bytes'])}, "
        f"first {corpus['first_source']}",
        "model": facts["model"] and f"{facts['model']} ({facts['architecture']})",
        "LM": facts.get("lm") and f"{facts['lm']}; keys are the model's above",
        "tokenizer": facts["tokenizer"],
        "documents": facts["documents"]
        and f"{facts['documents']:,} ({facts['skipped_documents']:,} empty ones skipped)",
        "entries": facts["entries"] and f"{facts['entries']:,}",
        "dimension": facts["dimension"],
        "keys": facts["entries"]
        and not facts["dimension"]
        and f"none; `retomaton extract {facts['path']} ...` makes them",
        "writer": facts["writer"] and f"being written by {facts['writer']}",
    }
    return [f"  {name:<10} {value}" for name, value in rows.items() if value]


def stage_as_text(store: Store, name: str) -> str:
    """What a stage that was just run came to: its section or line, or else the whole store."""
    with _as_stages_write(store.path):
        stage = _stage(store, name)
        line = _about(name, stage["facts"])
        return _section(name, stage) or (f"{name}:{line[1:]}" if line else _shown(describe(store)))


def _section(name: str, stage: Json) -> str:
    known = declared(name)
    if known is None or not known.section or stage["status"] != "done":
        return ""
    return str(load(known.section)(name.partition("/")[2], stage))


def _about(name: str, facts: Json) -> str:
    if name.startswith("calibrate/"):
        return f"  {len(facts['methods'])} methods, {facts['positions']:,} positions"
    known = declared(name)
    return f"  {known.said(facts)}" if known and known.line else ""


def _human(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def clustering_as_text(name: str, stage: Json) -> str:
    """A clustering for people."""
    facts, config = stage["facts"], stage["config"]
    path = f", {facts['path']}" if "path" in facts else ""
    rows = [
        f"{name}: {facts['states']:,} states of {facts['entries']:,} entries "
        f"({config['algorithm']}{path})",
        f"  members    min {facts['smallest']:,}, median {facts['median']:,.0f}, "
        f"p99 {facts['p99']:,.0f}, max {facts['largest']:,}; {facts['empty']:,} states empty",
        f"  values     {facts['several_values']:.1%} of the states have more than one",
    ]
    if facts["inertia"] is not None:
        distance = facts["mean_distance"]
        rows.append(f"  inertia    {facts['inertia']:.6g}, mean distance {distance:.4g}")
    rows += [
        f"  giant      state {giant['state']} holds {giant['size']:,} entries, {giant['share']:.1%}"
        for giant in facts["giants"]
        if giant["size"] * facts["states"] >= GIANT * facts["entries"]
    ]
    return "\n".join([*rows, "", textwrap.indent(facts["histogram"], "  ")])
