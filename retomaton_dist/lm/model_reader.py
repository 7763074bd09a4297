"""What reads text with a model: windows of a corpus, and the model, loaded where it is used."""

from dataclasses import dataclass
from functools import cached_property

from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.reading import WindowReader
from retomaton_dist.settings import ModelSettings
from storage.corpus import Corpus
from storage.sending import WithoutCaches


@dataclass(frozen=True)
class ModelReader(WithoutCaches):
    """The common part of readers; sent to a worker, it loads the model there."""

    windows: WindowReader
    model: ModelSettings
    device: str

    @cached_property
    def lm(self) -> LanguageModel:
        """The model on its device."""
        return LanguageModel.load(self.model, self.device)

    @property
    def corpus(self) -> Corpus:
        """What is read."""
        return self.windows.corpus
