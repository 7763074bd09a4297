"""An evaluation before anything is run: the store's model, its automata and index, checked."""

from dataclasses import asdict, dataclass
from pathlib import Path

from retomaton_dist.automaton.walk_settings import WalkSettings, check_walk
from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.evaluation.choices import Choices, choose
from retomaton_dist.evaluation.reading import TextReader
from retomaton_dist.evaluation.settings import EvaluateSettings
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.reading import WindowReader
from retomaton_dist.runtime.cluster import Session
from retomaton_dist.search.layout import IndexFiles
from retomaton_dist.settings import ModelSettings
from retomaton_dist.stages.score_worker import Retrieval
from storage.canonical import Json
from storage.corpus import Corpus
from storage.store import Store
from storage.verify import verify

# Logits of a batch: 512 MB as float32.
MOST_LOGITS = 1 << 27


@dataclass(frozen=True)
class Prepared:
    """Everything that both texts are read, searched and walked with."""

    store: Store
    settings: EvaluateSettings
    choices: Choices
    model: ModelSettings
    outlined: ModelOutline
    device: str
    retrieval: Retrieval

    def reader(self, text: Corpus) -> TextReader:
        """The model over a text, in windows as the corpus was read."""
        config = self.store.stage("extract").config
        asked = self.settings.batch_tokens or config["batch_tokens"]
        room = max(config["context"], MOST_LOGITS // self.outlined.vocabulary)
        windows = WindowReader(text, config["context"], config["stride"], min(asked, room))
        return TextReader(windows, self.outlined.spec, self.device)

    def inputs(self) -> Json:
        """Digests of what results depend on besides the text."""
        stage = self.store.stage
        return {
            "datastore": stage("extract").digest,
            "model": self.outlined.spec.identity.weights,
            "index": stage(f"index/{self.settings.index}").digest,
            "automata": {name: stage(f"compile/{name}").digest for name in self.choices.automata},
        }


def prepare(
    path: str | Path, settings: EvaluateSettings, walk: WalkSettings, session: Session
) -> Prepared:
    """Check everything that can be checked before a text is read."""
    store = Store.open(Path(path).resolve())
    check_walk(walk)
    choices = choose(settings, store)
    entries = store.stage("extract").facts["entries"]
    if walk.k > entries:
        raise BadInput(f"--k {walk.k}: the store has {entries:,} entries; choose 1..{entries}")
    IndexFiles.open(store, settings.index)
    model = store_model(store, settings)
    outlined = _outlined(store, model)
    device = settings.device or store.stage("extract").config["device"]
    if device == "cuda" and not session.has_gpu():
        raise BadInput("the store's keys were made on a GPU and there is none; use --device cpu")
    if settings.verify:
        _verify(store)
    retrieval = Retrieval(
        store.path,
        choices.automata,
        settings.index,
        settings.parameters,
        settings.served,
        walk,
        session.settings.threads,
    )
    return Prepared(store, settings, choices, model, outlined, device, retrieval)


def store_model(store: Store, settings: EvaluateSettings) -> ModelSettings:
    """The model that the store's keys were made with."""
    stage = store.stage("extract")
    return ModelSettings(
        model=settings.model or stage.facts["model"],
        key=stage.config["key"],
        device=settings.device,
        dtype=stage.config["dtype"] if settings.device is None else None,
        trust_remote_code=settings.trust_remote_code,
    )


def _outlined(store: Store, model: ModelSettings) -> ModelOutline:
    made = store.stage("extract").config["model"]
    outlined = outline(identify(model)[0])
    if outlined.spec.identity.weights != made:
        raise BadInput(
            f"model {model.model} is not the one that {store.path} was made with (its weights or "
            f"config differ): queries and keys would not match; name the right one with --model"
        )
    return outlined


def _verify(store: Store) -> None:
    findings = verify(store).findings
    if findings:
        raise DamagedStore(
            f"{store.path}: {findings[0].path}: {findings[0].problem} ({len(findings)} such); "
            f"`retomaton verify {store.path}` lists them"
        )


def described(prepared: Prepared) -> Json:
    """The settings, and facts about what was evaluated with, for the report."""
    store = prepared.store
    names = [f"compile/{name}" for name in prepared.choices.automata]
    return {
        "evaluate": asdict(prepared.settings),
        "walk": asdict(prepared.retrieval.settings),
        "store": str(store.path),
        "model": prepared.model.model,
        "inputs": prepared.inputs(),
        "datastore": store.stage("extract").facts,
        "extract": store.stage("extract").config,
        "automata": {name.split("/")[1]: store.stage(name).facts for name in names},
        "index": store.stage(f"index/{prepared.settings.index}").facts,
    }
