"""Building a store, stage after stage, and saying beforehand what it would take.

`rd.tokenize`, `rd.extract` and so on are made from the stages' declarations: see `__getattr__`.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from retomaton_dist.api.store import StoreReader
from retomaton_dist.dry_run.build import SECONDS, BuildEstimate, estimate_build
from retomaton_dist.dry_run.disk import check_disk, check_least
from retomaton_dist.lm.identity import identify
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings import (
    GROUPS,
    BuildSettings,
    CorpusSettings,
    ModelSettings,
    TokenizeSettings,
)
from retomaton_dist.settings.parsing import build_settings, split_keywords
from retomaton_dist.settings.stages import DeclaredStage, declared
from retomaton_dist.stages import build as building
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
    but tokens are run; the same call without it adds the others. What is wrong with any of them, a
    disk that is too small among it, is refused before anything is written or, if it takes the
    number of entries to see it, before the model is run.
    """
    chosen, path = build_settings(settings), Path(store)
    if not chosen.with_keys:
        building.check_later(path, chosen, 0)
        with Session(chosen.workers) as session:
            corpus = _plan_corpus(path, chosen)
            with writing(store) as writer:
                building.build_without_keys(writer, chosen, corpus, session)
        return StoreReader.open(store)
    with Session(chosen.workers) as session:
        inputs = building.find_inputs(path, chosen, session)
        building.check_later(path, chosen, inputs.outlined.dimension)
        check_least(path, chosen, inputs)
        check = partial(check_disk, path, chosen, inputs)
        with writing(store) as writer:
            building.build(writer, chosen, inputs, session, check)
    return StoreReader.open(store)


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
    return stage_function(stage)


def stage_function(stage: DeclaredStage) -> StageFunction:
    """The function of `rd.` that runs one stage; all is checked before anything is written."""

    def run(store: str | Path, **settings: Any) -> StoreReader:
        groups = split_keywords([GROUPS[name] for name in stage.groups], settings)
        _run(stage, Path(store), BuildSettings(tuple(groups)))
        return StoreReader.open(store)

    run.__name__ = run.__qualname__ = stage.name
    needed = "`corpus` and `model` are needed" if stage.from_text else "none is needed"
    run.__doc__ = (
        f"{stage.summary}\n\nKeywords are the flags of `retomaton {stage.name}`; {needed}."
    )
    return run


def _run(stage: DeclaredStage, store: Path, settings: BuildSettings) -> None:
    code: BuildStage = stage.load()
    if not stage.from_text:
        code.check_store(Store.open(store.resolve()), settings)
    with Session(settings.workers) as session:
        inputs, corpus = None, None
        if stage.name == "tokenize":
            corpus = _plan_corpus(store, settings)
        elif stage.from_text:
            inputs = building.find_inputs(store, settings, session)
            corpus = inputs.corpus
        with writing(store) as writer:
            if corpus is not None:
                run_stage(writer, corpus, session)
            if stage.name != "tokenize":
                code.run(Running(writer, settings, session, inputs))


def _plan_corpus(store: Path, settings: BuildSettings) -> TokenizePlan:
    """What is to be tokenised: only the model's tokenizer is needed."""
    identified = identify(settings.of(ModelSettings), weights=False)
    chosen = settings.of(CorpusSettings), identified, settings.of(TokenizeSettings)
    return plan_tokenize(store, *chosen)
