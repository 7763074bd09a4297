"""The settings of what follows extraction, from the tables of a file or of `rd.build`.

Light, so that bad settings are refused before anything heavy is imported.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from retomaton_dist.errors import BadInput
from retomaton_dist.resolve import GROUPS, checked_table, make_group
from retomaton_dist.search.settings import IndexSettings
from retomaton_dist.settings import ClusterSettings, CompileSettings

TABLES = ("cluster", "index", "compile")


@dataclass(frozen=True)
class LaterSettings:
    """How the stages after extraction are run."""

    cluster: ClusterSettings
    index: IndexSettings
    compile: CompileSettings

    @property
    def clustering(self) -> str:
        """Name of the clustering that the build makes."""
        return self.cluster.name or self.cluster.algorithm


def later_settings(tables: Mapping[str, Any]) -> LaterSettings:
    """Make the settings from their tables, any of which may be missing; others are ignored.

    What is compiled is the clustering that the build makes, unless [compile] names another.
    """
    given = {
        name: checked_table(tables.get(name, {}), GROUPS[name], f"[{name}]") for name in TABLES
    }
    cluster: ClusterSettings = _made("cluster", given["cluster"])
    compiled = {"states": cluster.name or cluster.algorithm, **given["compile"]}
    return LaterSettings(cluster, _made("index", given["index"]), _made("compile", compiled))


@contextlib.contextmanager
def in_table(name: str) -> Iterator[None]:
    """Say of what a block refuses in which table it stands: `name` and others are in several."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"[{name}] {error}") from error


def _made(name: str, given: Mapping[str, Any]) -> Any:
    with in_table(name):
        return make_group(GROUPS[name], given)
