"""Building a store, stage after stage, and saying beforehand what it would take.

`rd.tokenize`, `rd.extract` and so on are made from the stages' declarations: see `__getattr__`.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from retomaton_dist.api.store import StoreReader
from retomaton_dist.dry_run.build import BuildEstimate, estimate_build
from retomaton_dist.dry_run.disk import check_disk, check_least
from retomaton_dist.dry_run.extraction import SECONDS
from retomaton_dist.lm.identity import identify
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    BuildSettings,
    CorpusSettings,
    ModelSettings,
    TokenizeSettings,
)
from retomaton_dist.settings.option import Settings
from retomaton_dist.settings.parsing import GROUPS, build_settings, split_keywords
from retomaton_dist.settings.stages import STAGES, DeclaredStage, declared
from retomaton_dist.stages import build as building
from retomaton_dist.stages.extract import ExtractStage
from retomaton_dist.stages.runner import run_stage
from retomaton_dist.stages.stage import BuildStage, Running
from retomaton_dist.stages.tokenize import TokenizePlan, plan_tokenize
from retomaton_dist.storage.store import Store, writing

StageFunction = Callable[..., StoreReader]


def build(store: str | Path, **settings: Any) -> StoreReader:
    """Run all stages, or what is missing of them.

    Keywords are the flags of `retomaton build`; `corpus` and `model` are needed. Settings of the
    later stages are tables, as in a TOML file: `cluster={"states": 500}`, `index={...}`,
    `compile={...}`, `suffix={...}`, `ngram={...}`. With `no_keys`, only stages that read nothing
    but tokens are run; the same call without it adds the others. All settings are checked before
    anything is written.
    """
    return run_build(store, build_settings(settings))


def estimate(store: str | Path, *, seconds: float = SECONDS, **settings: Any) -> BuildEstimate:
    """Say what `rd.build` with the same keywords would take; nothing is written.

    Measuring takes about so many seconds at most, besides starting workers and loading the model.
    """
    return estimate_build(store, build_settings(settings), seconds)


def __getattr__(name: str) -> StageFunction:
    """The function of a stage, such as `rd.suffix`: keywords are the flags of its command."""
    stage = declared(name)
    if stage is None or stage.name != name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _function(stage)


def _function(stage: DeclaredStage) -> StageFunction:
    def run(store: str | Path, **settings: Any) -> StoreReader:
        groups = split_keywords([GROUPS[group] for group in stage.groups], settings)
        return run_one(stage.name, store, *groups)

    run.__name__ = run.__qualname__ = stage.name
    needed = "`corpus` and `model` are needed" if stage.from_text else "none is needed"
    run.__doc__ = (
        f"{stage.summary}\n\nKeywords are the flags of `retomaton {stage.name}`; {needed}."
    )
    return run


def run_one(name: str, store: str | Path, *groups: Settings) -> StoreReader:
    """Run one stage with these groups of settings; all is checked before anything is written."""
    stage = next(stage for stage in STAGES if stage.name == name)
    settings = BuildSettings(groups)
    if not stage.from_text:
        loaded: BuildStage = stage.load()
        loaded.check_store(Store.open(Path(store).resolve()), settings)
        with Session(settings.workers) as session, writing(store) as writer:
            loaded.run(Running(writer, settings, session))
        return StoreReader.open(store)
    run = {"tokenize": _tokenize, "extract": _extract}[name]
    with Session(settings.workers) as session:
        run(store, settings, session)
    return StoreReader.open(store)


def _tokenize(store: str | Path, settings: BuildSettings, session: Session) -> None:
    plan = _corpus(store, settings)
    with writing(store) as writer:
        run_stage(writer, plan, session)


def _corpus(store: str | Path, settings: BuildSettings) -> TokenizePlan:
    """What is to be tokenised: only the model's tokenizer is needed."""
    identified = identify(settings.of(ModelSettings), weights=False)
    chosen = settings.of(CorpusSettings), identified, settings.of(TokenizeSettings)
    return plan_tokenize(Path(store), *chosen)


def _extract(store: str | Path, settings: BuildSettings, session: Session) -> None:
    """The corpus is tokenised first."""
    inputs = building.find_inputs(Path(store), settings, session)
    with writing(store) as writer:
        run_stage(writer, inputs.corpus, session)
        ExtractStage().run(Running(writer, settings, session, inputs))


def run_build(store: str | Path, settings: BuildSettings) -> StoreReader:
    """Run all stages by one session's actors.

    What is wrong with any of them, a disk that is too small among it, is refused before anything
    is written or, if it takes the number of entries to see it, before the model is run.
    """
    if not settings.with_keys:
        return _run_without_keys(store, settings)
    with Session(settings.workers) as session:
        inputs = building.find_inputs(Path(store), settings, session)
        building.check_later(Path(store), settings, inputs.outlined.dimension)
        check_least(Path(store), settings, inputs)
        check = partial(check_disk, Path(store), settings, inputs)
        with writing(store) as writer:
            building.build(writer, settings, inputs, session, check)
    return StoreReader.open(store)


def _run_without_keys(store: str | Path, settings: BuildSettings) -> StoreReader:
    building.check_later(Path(store), settings, 0)
    with Session(settings.workers) as session:
        corpus = _corpus(store, settings)
        with writing(store) as writer:
            building.build_without_keys(writer, settings, corpus, session)
    return StoreReader.open(store)
