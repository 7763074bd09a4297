"""What is chosen by name is known before the code behind the names is imported."""

import pytest

from retomaton_dist.errors import BadInput
from retomaton_dist.methods import registry
from retomaton_dist.settings import EvaluateSettings, LoadSettings
from retomaton_dist.settings.choices import METHODS


def test_the_methods_are_those_of_the_registry_in_its_order():
    assert list(METHODS) == list(registry.METHODS)


def test_a_method_that_there_is_not_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"--method retomatn: .* \(did you mean retomaton\?\)"):
        LoadSettings(method="retomatn")
    with pytest.raises(BadInput, match="--methods best: choose from lm, knnlm"):
        EvaluateSettings(text=("a",), methods="lm,best")
