"""The settings of an evaluation."""

from dataclasses import dataclass

from retomaton_dist.settings import option


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """What text is evaluated, how, and with what of the store."""

    text: tuple[str, ...] = option("text to evaluate: files, folders, globs")
    split: str | None = option(
        "what a document of the text is, as in `extract`", None, shown="as the store's corpus"
    )
    field: str = option("the field of .jsonl records, or column of .parquet, that is text", "text")
    calibrate_on: tuple[str, ...] = option(
        "held-out text that lambda, temperature and the networks are fitted on; never the "
        "evaluated one",
        (),
        shown="none; then --lambda and --temperature are needed",
    )
    methods: str | None = option(
        "comma-separated: lm, knnlm, adaptret, retomaton, retomaton+pw, retomaton+lambda",
        None,
        shown="all",
    )
    automata: str | None = option(
        "comma-separated names of compiled automata, the main one first",
        None,
        shown="all of the store's with the codec of the first",
    )
    tau: str | None = option(
        "comma-separated thresholds from 1 to inf: a walk in fewer states searches; auto: eight "
        "that spread FoSS evenly on the calibration text",
        None,
    )
    target_foss: str | None = option(
        "comma-separated fractions of saved searches: for each, the tau that has it on the "
        "calibration text",
        None,
        shown="none",
    )
    lambda_: float | None = option("weight of the automaton, 0 to 1; auto: calibrated", None)
    temperature: float | None = option("of the candidates' weights; auto: calibrated", None)
    mode: str = option(
        "sweep: every position is searched once and serves all methods and taus; live: a pass "
        "per point that searches only what its method asks for, and is timed",
        "sweep",
        choices=("sweep", "live"),
    )
    out: str | None = option("folder of the results", None, shown="STORE/evaluations/TEXT-MODE")
    positions: int | None = option(
        "evaluate so many positions at most, of documents drawn at random; auto: all", None
    )
    calibration_positions: int = option("the same of the calibration text", 32_768)
    preset: str = option(
        "the walk: as in the paper, or as in its authors' code (which does better at equal FoSS: "
        "docs/results.md); single settings below win",
        "reference",
        choices=("paper", "reference"),
    )
    index: str = option("the search index", "default")
    parameters: str | None = option("of the search, such as nprobe=64", None, shown="the index's")
    served: bool = option("search by way of the service that `serve-index` started", False)
    model: str | None = option("where the store's model now lies", None, shown="where it was")
    device: str | None = option("auto: as the store's keys", None, choices=("cpu", "cuda"))
    batch_tokens: int | None = option(
        "tokens per forward pass; auto: as the store's keys, less if the vocabulary is large", None
    )
    trust_remote_code: bool = option("run code that comes with the model", False)
    same_text: bool = option(
        "allow calibration on text that is evaluated, too: the results are then too good", False
    )
    verify: bool = option("read the whole store and check its digests first", False)
