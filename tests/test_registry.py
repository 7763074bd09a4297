"""Things by name: offered in their order, imported when used, an unknown name met with a hint."""

import pytest

from retomaton_dist.errors import BadInput
from retomaton_dist.registry import Registered, Registry, nearest
from retomaton_dist.settings.choices import CLUSTERINGS, CODECS

SHAPES = Registry(
    "shape",
    {"path": Registered("pathlib:Path", "of a file"), "gone": Registered("no.such.module:Thing")},
)


def test_a_thing_is_imported_when_it_is_asked_for():
    assert SHAPES["path"].__name__ == "Path"
    with pytest.raises(ModuleNotFoundError):
        SHAPES["gone"]


def test_names_and_help_come_in_the_order_of_the_entries():
    assert SHAPES.names == tuple(SHAPES) == ("path", "gone")
    assert SHAPES.help == "path: of a file; gone"


def test_an_unknown_name_is_refused_with_the_nearest_known_one():
    with pytest.raises(BadInput, match=r"no shape 'pth'; did you mean 'path'\?"):
        SHAPES["pth"]
    assert nearest("pth", ["gone", "path"]) == "path"


@pytest.mark.parametrize("registry", [CODECS, CLUSTERINGS], ids=lambda registry: registry.kind)
def test_everything_that_settings_offer_is_there(registry):
    assert [registry[name].__doc__ for name in registry]
    assert all(name == CODECS[name]().name for name in CODECS)
