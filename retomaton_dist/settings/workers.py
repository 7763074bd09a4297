"""The settings of who works, and where."""

from dataclasses import dataclass

from retomaton_dist.settings.option import Settings, option

# Far beyond any machine; what comes of a slip of the finger must not reach Ray or torch.
MOST_WORKERS, MOST_THREADS = 1 << 16, 1 << 10


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(Settings):
    """Where work runs and how it is shown. Of these only `threads` can change a result."""

    address: str = option(
        "Ray cluster to join: HOST:PORT, auto for the one on this machine, or local to start one",
        "",
        shown="the one this job runs in, else local",
    )
    workers: int | None = option(
        "actors; 0: no Ray, everything in this process; auto: one per GPU if used, else one per "
        "CPU",
        None,
        least=0,
        most=MOST_WORKERS,
    )
    cpus_per_worker: float | None = option(
        "CPUs per actor, fractions allowed; auto: 1", None, above=0, below=1 << 20
    )
    threads: int = option(
        "threads of one actor (torch, OpenMP, BLAS, numba)", 1, least=1, most=MOST_THREADS
    )
    unit_timeout: float = option("seconds after which a unit counts as stuck", 3600.0, above=0)
    progress: str | None = option(
        "auto: a bar on a terminal, else lines", None, choices=("bar", "lines", "json", "none")
    )


@dataclass(frozen=True, kw_only=True)
class ServeSettings(Settings):
    """Which index is served, and how it is searched."""

    name: str = option("of the index", "default", names=True)
    parameters: str | None = option(
        "search parameters other than the index's own, such as nprobe=64", None, shown="its own"
    )
    device: str | None = option(
        "auto: a GPU per shard if the cluster and FAISS have them", None, choices=("cpu", "cuda")
    )
