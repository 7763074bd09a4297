"""The settings of a store that is used as a language model, and of scoring texts with it."""

from dataclasses import dataclass
from pathlib import Path

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.choices import check_method
from retomaton_dist.settings.evaluate import UsedModels, check_sigma
from retomaton_dist.settings.option import Settings, option


@dataclass(frozen=True, kw_only=True)
class LoadSettings(UsedModels):
    """Which method of the store, with which calibration and thresholds."""

    method: str | None = option(
        "as in `eval`: lm, knnlm, retomaton, ...",
        None,
        shown="the LM mixed with all that the store has and that needs no search",
    )
    with_: tuple[str, ...] = option(
        "further stores with the same tokenizer, mixed in beside the first by weights that follow "
        "the text",
        (),
        shown="none",
        path="place",
    )
    automaton: str | None = option("name of a compiled automaton", None, shown="the main one")
    calibration: str | None = option(
        "name of a calibration of the store", None, names=True, shown="the newest"
    )
    tau: float | None = option(
        "threshold from 1 to inf: a walk in fewer states restarts", None, least=1,
        shown="by --foss",
    )  # fmt: skip
    foss: float | None = option(
        "fraction of searches to save, as it was on the calibration text",
        None,
        least=0,
        most=1,
        shown="what the calibration was made for",
    )
    sigma: float | None = option(
        "for methods that look up suffixes: a restart searches where the longest suffix that the "
        "corpus has is shorter; 0: never",
        None,
        least=0,
        shown="by --foss",
    )
    lambda_: float | None = option(
        "weight of the automaton, for methods without a network",
        None,
        least=0,
        below=1,
        shown="as calibrated",
    )
    knn_temperature: float | None = option(
        "of the candidates' weights, for methods without a network",
        None,
        above=0,
        below=float("inf"),
        shown="as calibrated",
    )
    threads: int = option("threads of the walk", 1, least=1, most=1 << 10)
    trust_remote_code: bool = option("run code that comes with the model", False)

    def check(self) -> None:
        """Refuse a method that there is not, and what is wrong with thresholds."""
        if self.method is not None:
            check_method("--method", self.method)
        if self.tau is not None and self.foss is not None:
            raise BadInput("give --tau or --foss, not both: a FoSS is met by choosing tau")
        if self.sigma is not None:
            check_sigma(self.sigma)


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(Settings):
    """What is scored, and where the numbers of its tokens go."""

    text: tuple[str, ...] = option("text to score: files, folders, globs", path="text")
    split: str | None = option(
        "what a document of the text is, as in `extract`", None, shown="as the store's corpus"
    )
    field: str = option("the field of .jsonl records, or column of .parquet, that is text", "text")
    out: str | None = option(
        "Parquet file for the numbers of every token; there must be none yet",
        None,
        shown="none",
        path="place",
    )

    def check(self) -> None:
        """Refuse a file that is there already, or is no Parquet file by its name."""
        if self.out is not None and Path(self.out).suffix != ".parquet":
            raise BadInput(f"--out {self.out}: name a file that ends in .parquet")
        if self.out is not None and Path(self.out).exists():
            raise BadInput(f"--out {self.out} is there already: name another file")
