"""The settings of the demo: what stands in for its own text and model."""

from dataclasses import dataclass

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.option import Settings, option


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Settings):
    """Where the demo works, and on what text and model instead of its own."""

    out: str = option("folder of the demo", "retomaton-demo")
    corpus: tuple[str, ...] = option(
        "text instead of Python's standard library", (), shown="that library"
    )
    split: str | None = option("what a document is, as in `extract`", None)
    text: tuple[str, ...] = option("text of yours to evaluate", (), shown="none of yours")
    calibrate_on: tuple[str, ...] = option(
        "other text of yours to calibrate on", (), shown="none of yours"
    )
    model: str | None = option(
        "model instead of training one", None, shown="a small one is trained"
    )
    steps: int = option("steps to train the model for", 1800, least=1)

    def check(self) -> None:
        """Refuse settings that do not go together."""
        for flag in ("split", "text", "calibrate_on"):
            if getattr(self, flag) and not self.corpus:
                raise BadInput(f"--{flag.replace('_', '-')} needs --corpus")
        if bool(self.text) != bool(self.calibrate_on):
            raise BadInput("--text and --calibrate-on go together: two held-out texts")
