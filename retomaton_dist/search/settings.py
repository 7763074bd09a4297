"""The settings of building and serving a search index; light, so that `--help` stays fast."""

from dataclasses import dataclass

from retomaton_dist.settings import option


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """What the search index is made of, and how near to exact it must come."""

    name: str = option("of the index; several may coexist", "default")
    factory: str | None = option(
        "FAISS index factory string, such as Flat, IVF1024,SQ8 or OPQ32,IVF4096,PQ32; auto: by "
        "the number of entries and the keys' width",
        None,
    )
    shards: int | None = option(
        "parts of whole chunks, each built and served by one actor; auto: about 1 GiB each", None
    )
    sample: int | None = option(
        "entries to train on, drawn at random; auto: 64 per IVF cell, at least 65,536", None
    )
    seed: int = option("of what is drawn at random", 1)
    recall_queries: int = option("entries that recall is measured with", 256)
    recall_k: int | None = option(
        "neighbours that recall is measured over; auto: 1024, at most a sixteenth of all entries",
        None,
    )
    target_recall: float = option("search parameters are tuned to reach this recall", 0.9)
    nprobe: int | None = option("IVF cells to search; auto: tuned to --target-recall", None)
    parameters: str | None = option(
        "any search parameters that FAISS knows, such as nprobe=32,quantizer_efSearch=64; what is "
        "given here is not tuned",
        None,
        shown="none",
    )


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Which index is served, and how it is searched."""

    name: str = option("of the index", "default")
    parameters: str | None = option(
        "search parameters other than the index's own, such as nprobe=64", None, shown="its own"
    )
    device: str | None = option(
        "auto: a GPU per shard if the cluster and FAISS have them", None, choices=("cpu", "cuda")
    )
