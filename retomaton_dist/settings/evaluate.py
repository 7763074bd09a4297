"""The settings of an evaluation, and of the walk it takes."""

import math
from dataclasses import dataclass, fields
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.choices import METHODS, check_method
from retomaton_dist.settings.option import Settings, option


@dataclass(frozen=True, kw_only=True)
class WalkSettings(Settings):
    """How the automaton is walked; what is not given is as in --preset, `reference` here."""

    k: int = option("neighbours that a search finds", 1024, least=1)
    max_knns: int = option("candidates that a walk yields at most", 1024, least=1)
    max_states: int = option(
        "states that a walk is in at most, those most pointed to", 4096, least=1
    )
    follow: str = option(
        "whose pointers are followed: all members' of the states, or last step's candidates'",
        "members",
        choices=("members", "scored"),
    )
    count: str = option(
        "what tau is compared with: the states reached, or last step's candidates that had the "
        "right value",
        "states",
        choices=("states", "entries"),
    )
    members: str = option(
        "what follows the pointers: the other members of the states by hash, or all members by "
        "state and entry, pointers repeated",
        "hashed",
        choices=("hashed", "listed"),
    )
    duplicates: str = option(
        "whether an entry that is found by search and by walk counts twice",
        "keep",
        choices=("keep", "drop"),
    )
    restart: str = option(
        "what a restart adds to the candidates: the neighbours that it found, or all members of "
        "their states",
        "neighbours",
        choices=("neighbours", "states"),
    )
    pointer_weight: float = option(
        "factor of the weight of entries that were pointed to", 1.0, above=0, below=float("inf")
    )
    seed: int = option("seed of the hash that orders members", 0, least=0, below=1 << 63)


PRESETS = {
    "reference": WalkSettings(follow="scored", count="entries", members="listed"),
    "equations": WalkSettings(
        max_knns=1 << 16, max_states=1 << 16, duplicates="drop", restart="states"
    ),
    "sampled": WalkSettings(),
}


def check_tau(tau: float) -> None:
    """Refuse a threshold that no walk could fall below: it would never search, even at first."""
    if not tau >= 1:
        raise BadInput(f"--tau {tau}: must be 1 or more, or inf to search at every position")


def check_sigma(sigma: float) -> None:
    """Refuse what is no length of a suffix."""
    if not (sigma >= 0 and (sigma == math.inf or sigma == int(sigma))):
        raise BadInput(f"--sigma {sigma:g}: must be 0 (never search), a whole number, or inf")


@dataclass(frozen=True, kw_only=True)
class UsedModels(Settings):
    """Which models a store is used with, and where they run."""

    model: str | None = option(
        "the LM whose probabilities are mixed: where it now lies, or any other with the store's "
        "tokenizer",
        None,
        shown="the one that the store was built for, where it was",
        path="model",
    )
    key_model: str | None = option(
        "where the model of the store's keys now lies", None, shown="where it was", path="model"
    )
    device: str | None = option("auto: as the store's keys", None, choices=("cpu", "cuda"))


@dataclass(frozen=True, kw_only=True)
class StoreUseSettings(UsedModels):
    """What of a store a text is scored with: common to `eval` and `calibrate`."""

    methods: str | None = option(
        f"comma-separated: {', '.join(METHODS)}",
        None,
        shown="every method whose artifacts exist",
    )
    automata: str | None = option(
        "comma-separated names of compiled automata, the main one first",
        None,
        shown="all of the store's with the codec of the first",
    )
    split: str | None = option(
        "what a document of the text is, as in `extract`", None, shown="as the store's corpus"
    )
    field: str = option("the field of .jsonl records, or column of .parquet, that is text", "text")
    preset: str = option(
        "the walk: as in the authors' code; as in the paper's equations, whole states scored, "
        "which is slow; or along whole states of which a sample is scored "
        "(docs/explanation/algorithm.md). Single settings below win",
        "reference",
        choices=("reference", "equations", "sampled"),
    )
    index: str = option("the search index", "default", names=True)
    no_index: bool = option(
        "search nothing: needs no search index; sigma is 0, and methods that must search are left "
        "out",
        False,
    )
    suffixes: str = option("the suffix index", "default", names=True)
    ngrams: str = option("the n-gram model", "default", names=True)
    parameters: str | None = option("of the search, such as nprobe=64", None, shown="the index's")
    batch_tokens: int | None = option(
        "tokens per forward pass; auto: as the store's keys, less if the vocabulary is large",
        None,
        least=1,
    )
    trust_remote_code: bool = option("run code that comes with the model", False)


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(StoreUseSettings):
    """What text is evaluated, how, and with what of the store."""

    text: tuple[str, ...] = option("text to evaluate: files, folders, globs", path="text")
    calibrate_on: tuple[str, ...] = option(
        "held-out text that lambda, temperature and the networks are fitted on; never the "
        "evaluated one",
        (),
        shown="none: then methods that need it are left out, unless --lambda and --knn-temperature "
        "are given",
        path="text",
    )
    calibration: str | None = option(
        "name of a calibration of the store to use, as `calibrate` made it; with --calibrate-on it "
        "is made first if it is not there",
        None,
        names=True,
        shown="none: what is found is kept with the results",
    )
    tau: str | None = option(
        "comma-separated thresholds from 1 to inf: a walk in fewer states searches; auto: eight "
        "that spread FoSS evenly on the calibration text",
        None,
    )
    sigma: str | None = option(
        "comma-separated lengths from 0 to inf, for methods that look up suffixes: a walk that "
        "runs thin searches where the longest suffix that the corpus has is shorter; 0: never; "
        "auto: pairs of tau and sigma that no other beats on the calibration text",
        None,
    )
    target_foss: str | None = option(
        "comma-separated fractions of saved searches: for each, the tau (or tau and sigma) that "
        "has it on the calibration text",
        None,
        shown="none",
    )
    lambda_: float | None = option(
        "weight of the automaton, at least 0 and below 1; auto: calibrated", None, least=0, below=1
    )
    knn_temperature: float | None = option(
        "of the weights of the candidates that are found; auto: calibrated",
        None,
        above=0,
        below=float("inf"),
    )
    mode: str = option(
        "sweep: every position is searched once and serves all methods and taus; live: a pass "
        "per point that searches only what its method asks for, and is timed",
        "sweep",
        choices=("sweep", "live"),
    )
    out: str | None = option(
        "folder of the results", None, shown="STORE/evaluations/TEXT-MODE-HASH", path="place"
    )
    positions: int | None = option(
        "evaluate so many positions at most, of documents drawn at random; auto: all",
        None,
        least=1,
    )
    calibration_positions: int = option("the same of the calibration text", 32_768, least=1)
    served: bool = option("search by way of the service that `serve-index` started", False)
    same_text: bool = option(
        "allow calibration on text that is evaluated, too: the results are then too good", False
    )
    verify: bool = option(
        "check the digests of the whole store first, not only of what is used", False
    )
    no_verify: bool = option(
        "use automata, indexes and corpus without comparing them with their digests", False
    )

    def check(self) -> None:
        """Refuse methods that there are not, and thresholds that are out of range."""
        for method in listed(self.methods):
            check_method("--methods", method)
        for tau in self.taus or ():
            check_tau(tau)
        if self.taus == ():
            raise BadInput("--tau names no threshold; use auto or numbers such as 1,4,16,inf")
        named = self._named_sigmas
        for sigma in named or ():
            check_sigma(sigma)
        if named == ():
            raise BadInput("--sigma names no length; use auto or numbers such as 0,2,inf")
        if self.no_index and named not in (None, (0.0,)):
            raise BadInput(f"--sigma {self.sigma} searches, and --no-index does not; use sigma 0")
        for target in self.targets:
            if not 0 <= target < 1:
                raise BadInput(f"--target-foss {target:g}: must be at least 0 and below 1")
        if self.verify and self.no_verify:
            raise BadInput("--verify and --no-verify are each other's opposite: leave one out")
        if self.targets and not (self.calibrate_on or self.calibration):
            raise BadInput("--target-foss is met on held-out text: name some with --calibrate-on")
        if self.calibration and not (self.lambda_ is None and self.knn_temperature is None):
            raise BadInput("--calibration has its own lambda and temperature: leave those out")

    @property
    def is_uncalibrated(self) -> bool:
        """Whether there is neither text to calibrate on, nor a calibration, nor a constant."""
        given = self.calibrate_on or self.calibration
        return not given and self.lambda_ is None and self.knn_temperature is None

    @property
    def taus(self) -> tuple[float, ...] | None:
        """The thresholds asked for, in order; None for auto."""
        if self.tau is None:
            return None
        return tuple(sorted({_number("--tau", item) for item in listed(self.tau)}))

    @property
    def sigmas(self) -> tuple[float, ...] | None:
        """The lengths asked for, in order; None for auto."""
        return (0.0,) if self.no_index else self._named_sigmas

    @property
    def _named_sigmas(self) -> tuple[float, ...] | None:
        if self.sigma is None:
            return None
        return tuple(sorted({_number("--sigma", item) for item in listed(self.sigma)}))

    @property
    def targets(self) -> tuple[float, ...]:
        """The fractions of saved searches asked for."""
        return tuple(_number("--target-foss", item) for item in listed(self.target_foss))


@dataclass(frozen=True, kw_only=True)
class CalibrateSettings(StoreUseSettings):
    """What text a store is calibrated on, for which methods, and with what of the store."""

    on: tuple[str, ...] = option(
        "held-out text that lambda, temperature, networks and thresholds are fitted on: files, "
        "folders, globs",
        path="text",
    )
    name: str = option("of the calibration; several may coexist", "default", names=True)
    target_foss: str = option(
        "comma-separated fractions of saved searches; the first is what scoring and generation "
        "aim at unless told otherwise",
        "0.5",
    )
    positions: int = option(
        "so many positions at most, of documents drawn at random", 32_768, least=1
    )

    def check(self) -> None:
        """Refuse targets that are no numbers, or out of range."""
        self.as_evaluation()
        if not self.targets:
            raise BadInput("--target-foss names no fraction; use numbers such as 0.5,0.8")

    @property
    def targets(self) -> tuple[float, ...]:
        """The fractions of saved searches asked for."""
        return self.as_evaluation().targets

    @classmethod
    def of_evaluation(cls, settings: EvaluateSettings) -> "CalibrateSettings":
        """The calibration that an evaluation names, as its first half."""
        assert settings.calibration is not None, "it names one"
        shared = _shared(settings)
        if settings.target_foss:
            shared["target_foss"] = settings.target_foss
        return cls(
            on=settings.calibrate_on,
            name=settings.calibration,
            positions=settings.calibration_positions,
            **shared,
        )

    def as_evaluation(self) -> EvaluateSettings:
        """The evaluation whose first half this is."""
        return EvaluateSettings(
            text=self.on,
            calibrate_on=self.on,
            calibration_positions=self.positions,
            target_foss=self.target_foss,
            **_shared(self),
        )


def _shared(settings: StoreUseSettings) -> dict[str, Any]:
    return {item.name: getattr(settings, item.name) for item in fields(StoreUseSettings)}


@dataclass(frozen=True, kw_only=True)
class ReportSettings(Settings):
    """Constants to measure with instead of the calibrated ones; networks keep theirs."""

    lambda_: float | None = option(
        "weight of all methods without a network", None, least=0, below=1, shown="as calibrated"
    )
    knn_temperature: float | None = option(
        "temperature of all methods without a network: one that the text was scored for",
        None,
        above=0,
        below=float("inf"),
        shown="as calibrated",
    )
    pointer_weight: float | None = option(
        "pointer weight of all methods without a network",
        None,
        above=0,
        below=float("inf"),
        shown="as calibrated",
    )
    retrain: int = option(
        "train networks anew so many times, on other draws of the calibration text and from other "
        "seeds, and show how much results move; takes as long as calibration, each time",
        0,
        least=0,
        most=100,
    )


def listed(items: str | None) -> list[str]:
    """The items of a comma-separated list."""
    return [item.strip() for item in (items or "").split(",") if item.strip()]


def _number(flag: str, item: str) -> float:
    try:
        return float(item)
    except ValueError:
        raise BadInput(f"{flag} {item}: must be numbers with commas between them") from None
