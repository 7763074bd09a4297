"""A whole build: all stages in order, and what is wrong with any of them said before the first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from retomaton_dist.errors import BadInput
from retomaton_dist.lm.identity import ModelIdentity, identify
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.tokenizer import Tokenizer, check_vocabulary, first_difference
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    BuildSettings,
    CorpusSettings,
    ExtractSettings,
    ModelSettings,
    TokenizeSettings,
)
from retomaton_dist.settings.parsing import in_table
from retomaton_dist.settings.stages import STAGES
from retomaton_dist.stages import extract
from retomaton_dist.stages.cost import StageEstimate, Work
from retomaton_dist.stages.extract import Windowing
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.stages.tokenize import TokenizePlan, plan_tokenize
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.store import StoreWriter


@dataclass(frozen=True)
class BuildInputs:
    """Corpus and model, found and checked, before anything is written.

    `outlined` is the model that keys come from; `lm` the one whose probabilities will be mixed, if
    that is another one.
    """

    corpus: TokenizePlan
    outlined: ModelOutline
    windowing: Windowing
    lm: ModelIdentity | None = None

    def shape(self, entries: int, settings: BuildSettings) -> Shape:
        """Shape of the datastore that extraction makes of so many entries."""
        chunk_entries = settings.of(ExtractSettings).chunk_entries
        return extract.choose_shape(entries, self.outlined.dimension, chunk_entries)


def find_inputs(store: Path, settings: BuildSettings, session: Session) -> BuildInputs:
    """Find corpus and model, and check the settings of `tokenize` and `extract` against them."""
    model = settings.of(ModelSettings)
    identified = identify(model)
    corpus = plan_tokenize(
        store, settings.of(CorpusSettings), identified, settings.of(TokenizeSettings)
    )
    outlined = outline(identified[0])
    check_vocabulary(corpus.tokenizer, outlined.vocabulary)
    lm = None
    if model.key_model is not None:
        lm, outlined = outlined.spec.identity, _key_model(model, corpus.tokenizer)
    windowing = extract.resolve(settings.of(ExtractSettings), model, outlined, session)
    same = lm is not None and lm.weights == outlined.spec.identity.weights
    return BuildInputs(corpus, outlined, windowing, None if same else lm)


def _key_model(model: ModelSettings, tokenizer: Tokenizer) -> ModelOutline:
    """The model that keys come from; one with another tokenizer than the LM's is refused."""
    assert model.key_model is not None
    spec, own = identify(replace(model, model=model.key_model, revision=None, key_model=None))
    difference = first_difference(own, tokenizer)
    if difference is not None:
        raise BadInput(
            f"--key-model {model.key_model} has another tokenizer than --model {model.model}: "
            f"{difference}; choose two models with the same tokenizer"
        )
    outlined = outline(spec)
    check_vocabulary(own, outlined.vocabulary)
    return outlined


def check_later(store: Path | None, settings: BuildSettings, dimension: int) -> None:
    """Refuse settings of stages that are wrong for keys of this width, in this store or in any.

    The store need not be there; stages without keys do not ask for the width.
    """
    for name, stage in chosen_stages(settings):
        with in_table(name):
            stage.check(settings, dimension, store)


def check_fit(settings: BuildSettings, shape: Shape) -> None:
    """Refuse settings of stages that do not fit so many entries."""
    for name, stage in all_stages():
        with in_table(name):
            stage.check_fit(settings, shape)


def estimate_stages(settings: BuildSettings, work: Work) -> list[StageEstimate]:
    """What every stage would take, in the order in which they run."""
    return [part for _, stage in all_stages() for part in stage.estimate(settings, work)]


def all_stages() -> Iterator[tuple[str, BuildStage]]:
    """The stages of a build, by name and in order."""
    return ((declared.name, declared.load()) for declared in STAGES)


def chosen_stages(settings: BuildSettings) -> Iterator[tuple[str, BuildStage]]:
    """Those that the settings leave in."""
    return ((name, stage) for name, stage in all_stages() if settings.with_keys or not stage.keys)


def build_without_keys(
    writer: StoreWriter, settings: BuildSettings, corpus: TokenizePlan, session: Session
) -> None:
    """Tokenise the corpus, and run the stages that read nothing but tokens."""
    run_stage(writer, corpus, session)
    for _, stage in chosen_stages(settings):
        stage.run(Running(writer, settings, session))


def build(
    writer: StoreWriter,
    settings: BuildSettings,
    inputs: BuildInputs,
    session: Session,
    check_shape: Callable[[Shape], None],
) -> None:
    """Run all stages, or what is missing of them, by one session's actors.

    `check_shape` may refuse what the corpus turns out to need, as BadInput.
    """
    new = not writer.manifest.stages
    running = Running(writer, settings, session, inputs)
    (_, tokenize), *others = all_stages()
    tokenize.run(running)
    corpus = writer.manifest.stages[inputs.corpus.name]
    try:
        shape = inputs.shape(corpus.facts["entries"], settings)
        check_fit(settings, shape)
        check_shape(shape)
    except BadInput:
        if new:
            # Leave nothing of a store that was begun with settings that no store of it could have.
            writer.abandon(inputs.corpus.name)
            for path in corpus.files:
                (writer.path / path).unlink(missing_ok=True)
        raise
    for _, stage in others:
        stage.run(running)
