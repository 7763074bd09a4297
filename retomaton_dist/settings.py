"""Every setting of the system, once: a frozen group per TOML table and per group of flags.

A field is a flag of the command line (`batch_tokens` is `--batch-tokens`), a key of its table in
the TOML file, and a keyword of the Python API. `None` stands for `auto`: the program finds out.
Nothing heavy is imported here, so that `--help` stays fast.
"""

from dataclasses import dataclass, field
from typing import Any


def option(help: str, default: Any = ..., **extra: Any) -> Any:  # noqa: A002 - argparse's word
    """Declare a setting with its help text, and its default unless it is required."""
    metadata = {"help": help, **extra}
    if default is ...:
        return field(metadata={**metadata, "required": True})
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class CorpusSettings:
    """What text is read and how it falls into documents."""

    corpus: tuple[str, ...] = option(
        "text to read: files, folders, globs; .jsonl and .parquet are read by record"
    )
    split: str | None = option(
        "what a document is: file, line, record, or regex:PATTERN (a line that the pattern "
        "matches at its beginning starts a document); auto: file for text, else record",
        None,
    )
    field: str = option("the field of .jsonl records, or column of .parquet, that is text", "text")


@dataclass(frozen=True, kw_only=True)
class TokenizeSettings:
    """How documents become tokens."""

    end: str = option("what ends a document: its last value", "eos", choices=("eos", "none"))
    unit_bytes: int = option("bytes of source per unit of tokenizing", 4 << 20)


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which language model, and what of it is the key."""

    model: str = option("a Hugging Face causal LM: hub id, local folder, or GGUF file")
    revision: str | None = option("branch, tag or commit of a hub model", None, shown="main")
    key: str = option(
        "the hidden state that is the key: input of the last layer's feed-forward block, "
        "output of the last layer, or what the LM head sees",
        "last_ffn_input",
        choices=("last_ffn_input", "last_ffn_output", "final_hidden"),
    )
    device: str | None = option(
        "auto: the GPU if the cluster has one", None, choices=("cpu", "cuda")
    )
    dtype: str | None = option(
        "of the model's arithmetic; auto: float32 on CPU, float16 on GPU",
        None,
        choices=("float32", "float16", "bfloat16"),
    )
    trust_remote_code: bool = option("run code that comes with the model", False)


@dataclass(frozen=True, kw_only=True)
class ExtractSettings:
    """How the corpus is cut into windows, batches and chunks."""

    context: int | None = option("tokens per window; auto: the model's own, at most 1024", None)
    stride: int | None = option(
        "tokens from one window to the next; auto: context / 2. Every key beyond a document's "
        "start sees at least context - stride tokens",
        None,
    )
    batch_tokens: int | None = option(
        "tokens per forward pass; auto: 4096 on CPU, 32768 on GPU. Lower it when memory runs out",
        None,
    )
    chunk_entries: int | None = option("entries per Zarr chunk; auto: by key width", None)


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """How entries become states."""

    name: str | None = option("of the clustering; several may coexist", None, shown="the algorithm")
    algorithm: str = option(
        "kmeans; greedy: entries absorb near neighbours of equal value; none: every entry is its "
        "own state",
        "kmeans",
        choices=("kmeans", "greedy", "none"),
    )
    states: int | None = option("number of states K of kmeans; auto: entries / 100", None)
    iterations: int = option("of kmeans, at most; it stops when little changes", 20)
    sample: int | None = option(
        "entries that kmeans learns from; auto: all, but at most 256 per state", None
    )
    seed: int = option("of what is drawn at random", 1)
    neighbours: int = option("neighbours that an entry may absorb (greedy): more, fewer states", 10)


@dataclass(frozen=True, kw_only=True)
class CompileSettings:
    """How a clustering becomes an automaton that can be walked."""

    states: str = option("the clustering to compile", "kmeans")
    name: str | None = option("of the automaton", None, shown="the clustering's")
    codec: str = option(
        "where distances come from: pq, short codes; fp16, the keys themselves",
        "pq",
        choices=("pq", "fp16"),
    )
    code_size: int | None = option(
        "bytes of a pq code, a divisor of the keys' width; auto: the largest up to 64", None
    )
    unit_entries: int = option("entries that a unit sorts in memory", 1 << 21)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Where work runs and how it is shown. Of these only `threads` can change a result."""

    address: str = option(
        "Ray cluster to join: HOST:PORT, auto for the one on this machine, or local to start one",
        "",
        shown="the one this job runs in, else local",
    )
    workers: int | None = option("actors; auto: one per GPU if used, else one per CPU", None)
    cpus_per_worker: float | None = option("CPUs per actor, fractions allowed; auto: 1", None)
    threads: int = option("threads of one actor (torch, OpenMP, BLAS, numba)", 1)
    unit_timeout: float = option("seconds after which a unit counts as stuck", 3600.0)
    progress: str | None = option(
        "auto: a bar on a terminal, else lines",
        None,
        choices=("bar", "lines", "json", "none"),
    )
