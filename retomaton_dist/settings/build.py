"""The settings of a build: from text to an automaton."""

from dataclasses import dataclass
from typing import TypeVar

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.choices import CLUSTERINGS, CODECS
from retomaton_dist.settings.option import Settings, option
from retomaton_dist.settings.workers import WorkerSettings

Group = TypeVar("Group", bound=Settings)


@dataclass(frozen=True, kw_only=True)
class CorpusSettings(Settings):
    """What text is read and how it falls into documents."""

    corpus: tuple[str, ...] = option(
        "text to read: files, folders, globs; .jsonl and .parquet are read by record", path="text"
    )
    split: str | None = option(
        "what a document is: file, line, record, or regex:PATTERN (a line that the pattern "
        "matches at its beginning starts a document); auto: file for text, else record",
        None,
    )
    field: str = option("the field of .jsonl records, or column of .parquet, that is text", "text")


@dataclass(frozen=True, kw_only=True)
class TokenizeSettings(Settings):
    """How documents become tokens."""

    end: str = option("what ends a document: its last value", "eos", choices=("eos", "none"))
    unit_bytes: int = option("bytes of source per unit of tokenizing", 4 << 20, above=0)


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Which language model, and what of it is the key."""

    model: str = option(
        "a Hugging Face causal LM: hub id, local folder, or GGUF file", path="model"
    )
    revision: str | None = option("branch, tag or commit of a hub model", None, shown="main")
    key_model: str | None = option(
        "a smaller LM with the same tokenizer that keys and queries come from; --model then only "
        "gives the probabilities that are mixed",
        None,
        shown="--model itself",
        path="model",
    )
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
class ExtractSettings(Settings):
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
        least=1,
    )
    chunk_entries: int | None = option("entries per Zarr chunk; auto: by key width", None)


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(Settings):
    """How entries become states."""

    name: str | None = option(
        "of the clustering; several may coexist", None, names=True, shown="the algorithm"
    )
    algorithm: str = option(CLUSTERINGS.help, "kmeans", choices=CLUSTERINGS.names)
    states: int | None = option("number of states K of kmeans; auto: entries / 100", None, least=1)
    iterations: int = option("of kmeans: few of the rows at first, all in the last", 20, least=1)
    sample: int | None = option(
        "entries that kmeans learns from; auto: 256 per state, more where quick", None, least=1
    )
    seed: int = option("of what is drawn at random", 1, least=0, below=1 << 63)
    neighbours: int = option(
        "neighbours that an entry may absorb (greedy): more, fewer states", 10, least=1
    )

    def check(self) -> None:
        """Refuse to learn more states than there are rows to learn from."""
        if self.sample is not None and self.states is not None and self.sample < self.states:
            raise BadInput(
                f"--sample {self.sample}: fewer entries than the {self.states:,} states to learn"
            )

    @property
    def clustering(self) -> str:
        """What the clustering is called: as asked for, or after its algorithm."""
        return self.name or self.algorithm


@dataclass(frozen=True, kw_only=True)
class IndexSettings(Settings):
    """What the search index is made of, and how near to exact it must come."""

    name: str = option("of the index; several may coexist", "default", names=True)
    factory: str | None = option(
        "FAISS index factory string, such as Flat, IVF1024,SQ8 or OPQ32,IVF4096,PQ32; auto: by "
        "the number of entries and the keys' width",
        None,
    )
    shards: int | None = option(
        "parts of whole chunks, each served by one actor; auto: about 1 GiB each",
        None,
        least=1,
    )
    sample: int | None = option(
        "entries to train on, drawn at random; auto: 64 per IVF cell, at least 65,536",
        None,
        least=1,
    )
    seed: int = option("of what is drawn at random", 1, least=0, below=1 << 63)
    recall_queries: int = option("entries that recall is measured with", 256, least=1)
    recall_k: int | None = option(
        "neighbours that recall is measured over; auto: 1024, at most a sixteenth of all entries",
        None,
        least=1,
    )
    target_recall: float = option(
        "search parameters are tuned to reach this recall", 0.9, above=0, most=1
    )
    nprobe: int | None = option(
        "IVF cells to search; auto: tuned to --target-recall", None, least=1
    )
    parameters: str | None = option(
        "any search parameters that FAISS knows, such as nprobe=32,quantizer_efSearch=64; what is "
        "given here is not tuned",
        None,
        shown="none",
    )
    unit_entries: int = option(
        "entries that a unit adds, where shards can be filled in parts", 1 << 18, least=1
    )


@dataclass(frozen=True, kw_only=True)
class CompileSettings(Settings):
    """How a clustering becomes an automaton that can be walked."""

    states: str = option("the clustering to compile", "kmeans", names=True)
    name: str | None = option("of the automaton", None, names=True, shown="the clustering's")
    codec: str = option(f"where distances come from: {CODECS.help}", "pq", choices=CODECS.names)
    code_size: int | None = option(
        "bytes of a pq code, a divisor of the keys' width; auto: the largest up to 64",
        None,
        least=1,
    )
    unit_entries: int = option("entries that a unit sorts in memory", 1 << 21, least=1)

    @property
    def automaton(self) -> str:
        """What the automaton is called: as asked for, or after its clustering."""
        return self.name or self.states


@dataclass(frozen=True, kw_only=True)
class SuffixSettings(Settings):
    """How entries are found by the tokens before them."""

    name: str = option("of the suffix index; several may coexist", "default", names=True)
    longest: int = option("tokens of context that are told apart", 8, least=1, most=64)
    unit_entries: int = option("entries that a unit sorts in memory", 1 << 21, least=1)


@dataclass(frozen=True, kw_only=True)
class NgramSettings(Settings):
    """How the n-gram model is counted."""

    name: str = option("of the n-gram model; several may coexist", "default", names=True)
    suffixes: str = option("the suffix index that it is counted over", "default", names=True)
    order: int | None = option(
        "length n of the longest n-grams; auto: 5, or what the suffix index allows: one more than "
        "its longest context",
        None,
        least=2,
        most=65,
    )
    unit_entries: int = option("entries that a unit counts", 1 << 21, least=1)


@dataclass(frozen=True, kw_only=True)
class PartsSettings(Settings):
    """Which parts of a store are built."""

    no_keys: bool = option(
        "only what comes of the tokens: suffix index, n-gram model, statistics. The model is not "
        "run, and only its tokenizer is needed",
        False,
    )


@dataclass(frozen=True, kw_only=True)
class DryRunSettings(Settings):
    """Whether a build is only estimated. Workers are started and the model is loaded for it."""

    dry_run: bool = option(
        "count the tokens, time a little of each stage, and say what every stage would need "
        "against what is free; nothing is written",
        False,
    )
    dry_run_seconds: float = option(
        "that a dry run measures at most; what it has no time for is derived from what it saw",
        60.0,
        above=0,
        below=float("inf"),
    )


@dataclass(frozen=True)
class BuildSettings:
    """The groups of settings that say how a store, or a part of it, is built, and by whom."""

    groups: tuple[Settings, ...]

    @property
    def with_keys(self) -> bool:
        """Whether keys are made, and what comes of them."""
        return not any(isinstance(part, PartsSettings) and part.no_keys for part in self.groups)

    def of(self, kind: type[Group]) -> Group:
        """The group of this kind."""
        return next(group for group in self.groups if isinstance(group, kind))

    def replaced(self, group: Settings) -> "BuildSettings":
        """The same with another group of this kind."""
        others = tuple(known for known in self.groups if type(known) is not type(group))
        return BuildSettings((*others, group))

    @property
    def workers(self) -> WorkerSettings:
        """Who builds."""
        return self.of(WorkerSettings)
