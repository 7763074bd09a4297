"""An evaluation before anything is run: what is asked for, checked against the store."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from retomaton_dist.calibration.calibration import Calibration, check_model
from retomaton_dist.engine.mixture import TextExpert
from retomaton_dist.engine.retrieval import Retrieval
from retomaton_dist.engine.store_models import (
    batch_tokens,
    device_of,
    has_keys,
    other_key_model,
    store_lm,
    windows_of,
)
from retomaton_dist.engine.store_parts import COMPILE, check_sigmas, choose_automata
from retomaton_dist.engine.text_reader import QueryReader, TextReader
from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.lm.model_reader import WindowReader
from retomaton_dist.lm.outline import ModelOutline
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.methods.method import Method, Searching
from retomaton_dist.methods.registry import choose_methods
from retomaton_dist.runtime.progress import say
from retomaton_dist.runtime.session import Session
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.settings import EvaluateSettings, WalkSettings
from retomaton_dist.settings.evaluate import listed
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.corpus import Corpus
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify

SUFFIX = "suffix/"
NGRAM = "ngram/"
POWERS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, math.inf)


@dataclass(frozen=True)
class Prepared:
    """Everything that both texts are read, searched and walked with.

    `outlined` is the LM; `key_model` gives the queries, if they are asked for and it is another.
    """

    store: Store
    settings: EvaluateSettings
    methods: list[Method]
    outlined: ModelOutline
    tokenizer: Tokenizer
    device: str
    retrieval: Retrieval
    kept: Calibration | None = None
    key_model: ModelOutline | None = None

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
        """The models over a text, that of the keys in windows as the corpus was read."""
        size = batch_tokens(self.store, self.outlined.vocabulary, self.settings.batch_tokens)
        windows = WindowReader(text, *windows_of(self.store, self.outlined), size)
        queries = None
        if self.key_model is not None:
            others = WindowReader(text, *windows_of(self.store, self.key_model), size)
            queries = QueryReader(others, self.key_model.spec, self.device)
        return TextReader(windows, self.outlined.spec, self.device, key_reader=queries)

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
            "model": self.outlined.spec.identity.weights,
            "automata": {name: stage(f"compile/{name}").digest for name in self.automata},
        }
        if has_keys(self.store):
            found["datastore"] = stage("extract").digest
        if retrieval.index is not None:
            found["index"] = stage(f"index/{retrieval.index}").digest
        if retrieval.suffixes is not None:
            found["suffixes"] = stage(f"{SUFFIX}{retrieval.suffixes}").digest
        if retrieval.ngrams is not None:
            found["ngrams"] = stage(f"{NGRAM}{retrieval.ngrams}").digest
        return found | ({"cache": True} if retrieval.cache else {})


def prepare(
    path: str | Path, settings: EvaluateSettings, walk: WalkSettings, session: Session
) -> Prepared:
    """Check everything that can be checked before a text is read."""
    store = Store.open(Path(path).resolve())
    kept = Calibration.open(store, settings.calibration) if settings.calibration else None
    methods = usable_methods(settings, store)
    if settings.methods is None and settings.is_uncalibrated:
        methods = [method for method in methods if not method.learns]
        say("note: methods that learn from held-out text are left out: name some, --calibrate-on")
    names = settings.automata
    if kept is not None:
        methods = _calibrated_methods(methods, kept, settings)
        names = names or ",".join(kept.automata)
        _check_alike(kept, walk, listed(names))
    automata = choose_automata(names, store) if any(method.is_walk for method in methods) else ()
    entries = store.corpus().entries
    if walk.k > entries and automata:
        raise BadInput(f"--k {walk.k}: the store has {entries:,} entries; choose 1..{entries}")
    index, suffixes = _index(methods, settings, store), _suffixes(methods, settings, store)
    outlined, tokenizer = store_lm(store, settings)
    if kept is not None:
        check_model(store, kept.name, outlined.spec.identity)
    key_model = None
    if any(method.is_walk or method.uses_queries for method in methods):
        key_model = other_key_model(store, outlined.spec.identity, settings)
    device = device_of(store, settings.device)
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
        ngrams=settings.ngrams if uses(methods, TextExpert.NGRAM) else None,
        cache=uses(methods, TextExpert.CACHE),
    )
    if not settings.no_verify:
        # Duplicates are looked for in the corpus, and its tokens are counted.
        check_stage(store, "tokenize")
        retrieval.check()
    loaded = outlined, tokenizer, device
    return Prepared(store, settings, methods, *loaded, retrieval, kept, key_model)


def _calibrated_methods(
    methods: list[Method], kept: Calibration, settings: EvaluateSettings
) -> list[Method]:
    """Those that a calibration knows; one that was named and that it does not know is refused."""
    if settings.methods is not None:
        for method in methods:
            kept.check(method.name)
    return [method for method in methods if method.name in kept.found]


def _check_alike(kept: Calibration, walk: WalkSettings, automata: list[str]) -> None:
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
    if settings.methods is None:
        methods = [method for method in methods if _has_parts(method, settings, store)]
    elif uses(methods, TextExpert.NGRAM):
        store.stage(f"{NGRAM}{settings.ngrams}")
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


def _has_parts(method: Method, settings: EvaluateSettings, store: Store) -> bool:
    """Whether the store has the n-gram model and the automaton that a method may need."""
    if TextExpert.NGRAM in method.text and not store.is_done(f"{NGRAM}{settings.ngrams}"):
        return False
    return has_keys(store) or not method.is_walk


def uses(methods: list[Method], expert: TextExpert) -> bool:
    """Whether some method asks a model of text alone."""
    return any(expert in method.text for method in methods)


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
    check_sigmas(store, settings.suffixes, settings.sigmas or ())
    return settings.suffixes


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
    tokenized = store.stage("tokenize").facts
    return {
        "evaluate": asdict(prepared.settings),
        "walk": asdict(prepared.retrieval.settings),
        "store": str(store.path),
        "model": str(prepared.outlined.spec.identity),
        "corpus": {name: tokenized[name] for name in ("sources", "first_source")},
        "size": {"entries": store.corpus().entries},
        "inputs": prepared.inputs(),
        "datastore": store.stage("extract").facts if has_keys(store) else {},
        "extract": store.stage("extract").config if has_keys(store) else {},
        "automata": {name.split("/")[1]: store.stage(name).facts for name in names},
        "index": store.stage(f"index/{index}").facts if index is not None else {},
    }
