"""Every setting of the system, once: a frozen group per TOML table and per group of flags.

A group is declared in `build`, `evaluate`, `load`, `server`, `train`, `plan`, `reproduce` or
`workers`; `parsing` makes it from flags, from a TOML file or from Python keywords, with one
meaning. `stages` declares the stages of a build, `choices` what can be chosen by name. Nothing
heavy is imported here, so that `--help` stays fast.
"""

from typing import Any

from retomaton_dist.settings.build import (
    BuildSettings,
    ClusterSettings,
    CompileSettings,
    CorpusSettings,
    DryRunSettings,
    ExtractSettings,
    IndexSettings,
    ModelSettings,
    NgramSettings,
    PartsSettings,
    SuffixSettings,
    TokenizeSettings,
)
from retomaton_dist.settings.demo import DemoSettings
from retomaton_dist.settings.evaluate import (
    PRESETS,
    CalibrateSettings,
    EvaluateSettings,
    ReportSettings,
    WalkSettings,
    check_tau,
)
from retomaton_dist.settings.generate import GenerateSettings
from retomaton_dist.settings.load import LoadSettings, ScoreSettings
from retomaton_dist.settings.plan import PlanSettings
from retomaton_dist.settings.reproduce import ReproduceSettings
from retomaton_dist.settings.server import ServerSettings
from retomaton_dist.settings.stages import STAGES
from retomaton_dist.settings.train import TrainSettings
from retomaton_dist.settings.workers import ServeSettings, WorkerSettings

__all__ = [
    "GROUPS",
    "PRESETS",
    "BuildSettings",
    "CalibrateSettings",
    "ClusterSettings",
    "CompileSettings",
    "CorpusSettings",
    "DemoSettings",
    "EvaluateSettings",
    "ExtractSettings",
    "GenerateSettings",
    "IndexSettings",
    "LoadSettings",
    "ModelSettings",
    "NgramSettings",
    "PartsSettings",
    "PlanSettings",
    "ReportSettings",
    "ReproduceSettings",
    "ScoreSettings",
    "ServeSettings",
    "ServerSettings",
    "SuffixSettings",
    "TokenizeSettings",
    "TrainSettings",
    "WalkSettings",
    "WorkerSettings",
    "check_tau",
]

# By the names of their tables in the TOML file.
GROUPS: dict[str, type[Any]] = {
    "corpus": CorpusSettings,
    "model": ModelSettings,
    **{stage.name: stage.settings for stage in STAGES if stage.settings},
    "parts": PartsSettings,
    "dry_run": DryRunSettings,
    "calibrate": CalibrateSettings,
    "evaluate": EvaluateSettings,
    "walk": WalkSettings,
    "report": ReportSettings,
    "generate": GenerateSettings,
    "load": LoadSettings,
    "score": ScoreSettings,
    "serve": ServeSettings,
    "server": ServerSettings,
    "workers": WorkerSettings,
    "train": TrainSettings,
    "plan": PlanSettings,
    "reproduce": ReproduceSettings,
    "demo": DemoSettings,
}
