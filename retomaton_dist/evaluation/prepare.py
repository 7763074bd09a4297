"""An evaluation before anything is run: what is asked for, checked against the store."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from retomaton_dist.errors import BadInput, DamagedStore, ModelError
from retomaton_dist.evaluation.kept_calibration import KeptCalibration
from retomaton_dist.evaluation.reading import TextReader
from retomaton_dist.evaluation.score_worker import Retrieval
from retomaton_dist.lm.identity import ModelIdentity, identify
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.reading import WindowReader
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.methods.method import Method, Searching
from retomaton_dist.methods.registry import choose_methods
from retomaton_dist.runtime.session import Session
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.settings import EvaluateSettings, ModelSettings, WalkSettings
from retomaton_dist.settings.evaluate import listed
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify

COMPILE = "compile/"
SUFFIX = "suffix/"
POWERS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, math.inf)
# Logits of a batch: 512 MB as float32.
MOST_LOGITS = 1 << 27


@dataclass(frozen=True)
class Prepared:
    """Everything that both texts are read, searched and walked with."""

    store: Store
    settings: EvaluateSettings
    methods: list[Method]
    outlined: ModelOutline
    tokenizer: Tokenizer
    device: str
    retrieval: Retrieval
    kept: KeptCalibration | None = None

    @property
    def automata(self) -> tuple[str, ...]:
        """Names of the automata that are walked, the main one first."""
        return self.retrieval.automata

    @property
    def taus(self) -> tuple[float, ...] | None:
        """Thresholds that were named, or powers of two; None: found out on the calibration text."""
        uncalibrated = self.kept is None and not self.settings.calibrate_on
        if self.settings.taus is None and uncalibrated:
            return POWERS
        return self.settings.taus

    def reader(self, text: Corpus) -> TextReader:
        """The model over a text, in windows as the corpus was read."""
        config = self.store.stage("extract").config
        asked = self.settings.batch_tokens or config["batch_tokens"]
        room = max(config["context"], MOST_LOGITS // self.outlined.vocabulary)
        windows = WindowReader(text, config["context"], config["stride"], min(asked, room))
        return TextReader(windows, self.outlined.spec, self.device)

    @property
    def restarts_by_suffix(self) -> bool:
        """Whether some walk of the automaton may restart by a suffix."""
        return any(
            method.uses_suffixes and method.searching is not Searching.NEVER
            for method in self.methods
        )

    def inputs(self) -> Json:
        """Digests of what results depend on besides the text."""
        stage, retrieval = self.store.stage, self.retrieval
        found: Json = {
            "datastore": stage("extract").digest,
            "model": self.outlined.spec.identity.weights,
            "automata": {name: stage(f"compile/{name}").digest for name in self.automata},
        }
        if retrieval.index is not None:
            found["index"] = stage(f"index/{retrieval.index}").digest
        if retrieval.suffixes is not None:
            found["suffixes"] = stage(f"{SUFFIX}{retrieval.suffixes}").digest
        return found


def prepare(
    path: str | Path, settings: EvaluateSettings, walk: WalkSettings, session: Session
) -> Prepared:
    """Check everything that can be checked before a text is read."""
    store = Store.open(Path(path).resolve())
    kept = KeptCalibration.open(store, settings.calibration) if settings.calibration else None
    methods = usable_methods(settings, store)
    names = settings.automata
    if kept is not None:
        methods = _calibrated_methods(methods, kept, settings)
        names = names or ",".join(kept.automata)
        _check_alike(kept, walk, listed(names))
    automata = choose_automata(names, store)
    entries = store.stage("extract").facts["entries"]
    if walk.k > entries:
        raise BadInput(f"--k {walk.k}: the store has {entries:,} entries; choose 1..{entries}")
    index, suffixes = _index(methods, settings, store), _suffixes(methods, settings, store)
    outlined, tokenizer = store_model(
        store, settings.model, settings.device, trust_remote_code=settings.trust_remote_code
    )
    device = settings.device or store.stage("extract").config["device"]
    if device == "cuda" and not session.has_gpu():
        raise BadInput("the store's keys were made on a GPU and there is none; use --device cpu")
    if settings.verify:
        _verify(store)
    retrieval = Retrieval(
        store.path,
        automata,
        index,
        suffixes,
        settings.parameters,
        settings.served,
        walk,
        session.settings.threads,
        verify=not settings.no_verify,
    )
    if not settings.no_verify:
        # Duplicates are looked for in the corpus, and its tokens are counted.
        check_stage(store, "tokenize")
        retrieval.check()
    return Prepared(store, settings, methods, outlined, tokenizer, device, retrieval, kept)


def _calibrated_methods(
    methods: list[Method], kept: KeptCalibration, settings: EvaluateSettings
) -> list[Method]:
    """Those that a calibration knows; one that was named and that it does not know is refused."""
    if settings.methods is not None:
        for method in methods:
            kept.check(method.name)
    return [method for method in methods if method.name in kept.found]


def _check_alike(kept: KeptCalibration, walk: WalkSettings, automata: list[str]) -> None:
    """Refuse a walk or an automaton that a calibration was not made with."""
    for name in automata:
        if name not in kept.automata:
            raise BadInput(
                f"calibration {kept.name!r} was made with {', '.join(kept.automata)}, not with "
                f"{name!r}; make another: `retomaton calibrate`"
            )
    made = asdict(kept.walk)
    for name, value in asdict(walk).items():
        if made[name] != value:
            raise BadInput(
                f"calibration {kept.name!r} was made with {name} {made[name]}, now it is {value}: "
                f"give the same, or make another: `retomaton calibrate`"
            )


def usable_methods(settings: EvaluateSettings, store: Store) -> list[Method]:
    """The methods named, or those that the store has what it takes for."""
    methods = choose_methods(settings.methods)
    stage = store.manifest.stages.get(f"{SUFFIX}{settings.suffixes}")
    if settings.suffixes != EvaluateSettings.suffixes:
        # It was asked for by name: methods must not be left out without a word.
        store.stage(f"{SUFFIX}{settings.suffixes}")
    if settings.methods is None and not settings.no_index and not (stage and stage.done):
        methods = [method for method in methods if not method.uses_suffixes]
    if not settings.no_index:
        return methods
    for method in methods:
        if settings.methods is not None and method.searching is Searching.ANYHOW:
            raise BadInput(f"--methods {method.name} searches, and --no-index does not: leave one")
    return [method for method in methods if method.searching is not Searching.ANYHOW]


def _index(methods: list[Method], settings: EvaluateSettings, store: Store) -> str | None:
    """The search index, checked; None if nothing is ever searched."""
    kinds = {method.searching for method in methods}
    if Searching.ANYHOW not in kinds:
        if Searching.BELOW_SIGMA not in kinds or settings.sigmas == (0.0,):
            return None
        stage = store.manifest.stages.get(f"index/{settings.index}")
        if not (stage and stage.done):
            raise BadInput(
                f"{store.path} has no index {settings.index!r} to search below sigma: make one "
                f"with `retomaton index {store.path}`, or never search: --no-index"
            )
    IndexFiles.open(store, settings.index)
    return settings.index


def _suffixes(methods: list[Method], settings: EvaluateSettings, store: Store) -> str | None:
    """The suffix index, checked; None if nothing is ever looked up."""
    if not any(method.uses_suffixes for method in methods):
        return None
    longest = store.stage(f"{SUFFIX}{settings.suffixes}").config["longest"]
    for sigma in settings.sigmas or ():
        if longest < sigma < math.inf:
            raise BadInput(
                f"--sigma {sigma:g}: the suffix index tells {longest} tokens apart; choose "
                f"0..{longest}, or inf"
            )
    return settings.suffixes


def store_model(
    store: Store, place: str | None, device: str | None, *, trust_remote_code: bool
) -> tuple[ModelOutline, Tokenizer]:
    """The model that the store's keys were made with, where it is now; another one is refused."""
    stage = store.stage("extract")
    made = ModelIdentity.from_facts(stage.facts.get("identity"))
    if place is None and made.revision is None and not Path(made.place).exists():
        raise ModelError(
            f"the model of {store.path} is no longer at {made.place}; name its place with --model"
        )
    spec, tokenizer = identify(
        ModelSettings(
            model=place or made.place,
            revision=None if place else made.revision,
            key=stage.config["key"],
            dtype=stage.config["dtype"] if device is None else None,
            trust_remote_code=trust_remote_code,
        )
    )
    if spec.identity.weights != made.weights:
        raise BadInput(
            f"model {spec.identity} is not the one that {store.path} was made with (its weights "
            f"or config differ): queries and keys would not match; name the right one with --model"
        )
    return outline(spec), tokenizer


def check_tokenizer(store: Store, identity: ModelIdentity) -> None:
    """Refuse another tokenizer than the store's: its tokens would be others."""
    if identity.tokenizer != store.stage("tokenize").config["tokenizer"]:
        raise BadInput(
            f"the tokenizer of {identity} is not the one that {store.path} was made with: "
            f"the text would have other tokens; use the store's model"
        )


def choose_automata(names: str | None, store: Store) -> tuple[str, ...]:
    """The automata named, or all that share the first one's codec; k-means comes first."""
    compiled = [
        name.removeprefix(COMPILE)
        for name, stage in store.manifest.stages.items()
        if name.startswith(COMPILE) and stage.done
    ]
    wanted = listed(names)
    for name in wanted:
        if name not in compiled:
            clustering = "" if f"cluster/{name}" in store.manifest.stages else _clustering(name)
            raise BadInput(
                f"{store.path} has no automaton {name!r}; make it: {clustering}"
                f"`retomaton compile {store.path} --states {name}`"
            )
    if not compiled:
        raise BadInput(f"{store.path} has no automaton; make one: `retomaton compile {store.path}`")
    chosen = wanted or sorted(compiled, key=lambda name: name != "kmeans")
    alike = [name for name in chosen if _codec(store, name) == _codec(store, chosen[0])]
    if wanted and len(alike) < len(wanted):
        other = next(name for name in wanted if name not in alike)
        raise BadInput(
            f"--automata: {wanted[0]} and {other} have other codecs, so their distances cannot be "
            f"compared; compile both with one --codec and --code-size"
        )
    return tuple(alike)


def _clustering(name: str) -> str:
    return f"`retomaton cluster STORE --algorithm {name}`, then " if name == "none" else ""


def _codec(store: Store, name: str) -> tuple[object, ...]:
    config = store.stage(f"{COMPILE}{name}").config
    return config["codec"], config["codes"]


def _verify(store: Store) -> None:
    findings = verify(store).findings
    if findings:
        raise DamagedStore(
            f"{store.path}: {findings[0].path}: {findings[0].problem} ({len(findings)} such); "
            f"`retomaton verify {store.path}` lists them"
        )


def described(prepared: Prepared) -> Json:
    """The settings, and facts about what was evaluated with, for the report."""
    store, index = prepared.store, prepared.retrieval.index
    names = [f"{COMPILE}{name}" for name in prepared.automata]
    return {
        "evaluate": asdict(prepared.settings),
        "walk": asdict(prepared.retrieval.settings),
        "store": str(store.path),
        "model": str(prepared.outlined.spec.identity),
        "inputs": prepared.inputs(),
        "datastore": store.stage("extract").facts,
        "extract": store.stage("extract").config,
        "automata": {name.split("/")[1]: store.stage(name).facts for name in names},
        "index": store.stage(f"index/{index}").facts if index is not None else {},
    }
