"""The settings of a plan: how much text, which keys, which machines."""

from dataclasses import dataclass

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.option import Settings, option

# More than all text there is; sums of what follows from it stay numbers.
MOST_TOKENS = 1e15


@dataclass(frozen=True, kw_only=True)
class PlanSettings(Settings):
    """What is to be built, and on what. Nothing of it need be there but the model's config."""

    tokens: float = option("tokens of the corpus, such as 1e9", least=1, most=MOST_TOKENS)
    model: str | None = option(
        "the model: hub id, local folder, or GGUF file; only its config is read",
        None,
        shown="none: --dimension says how wide keys are",
    )
    dimension: int | None = option(
        "numbers of a key", None, least=1, most=1 << 20, shown="the model's"
    )
    parameters: float | None = option(
        "of the model, without its embeddings; 0: leave extraction out",
        None,
        least=0,
        shown="the model's, or 0",
    )
    nodes: int = option("machines", 1, least=1, most=1 << 20)
    cores: int | None = option(
        "CPU cores of each", None, least=1, most=1 << 16, shown="this machine's"
    )
    gpus: int = option("GPUs of each", 0, least=0, most=1 << 10)
    node_memory: float | None = option(
        "GB of memory of each",
        None,
        above=0,
        shown="this machine's, or 4 per core where --cores is given",
    )
    network: float = option("Gbit/s that each node has to the others and the store", 10.0, above=0)
    disk: float | None = option("GB of disk for the store", None, above=0, shown="unlimited")
    unit_timeout: float = option("seconds after which a unit would count as stuck", 3600.0, above=0)
    rates: str | None = option(
        "JSON file of rates measured elsewhere, as the benchmark `scale` writes them",
        None,
        shown="those measured by the authors",
    )

    def check(self) -> None:
        """Refuse a plan for keys of unknown width."""
        if self.model is None and self.dimension is None:
            raise BadInput("--model or --dimension is needed: how wide are the keys?")
