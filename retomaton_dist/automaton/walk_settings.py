"""The settings of a walk, and the presets: the paper's walk and that of its authors' code."""

from dataclasses import dataclass

from retomaton_dist.errors import BadInput
from retomaton_dist.settings import option


@dataclass(frozen=True, kw_only=True)
class WalkSettings:
    """How the automaton is walked."""

    k: int = option("neighbours that a search finds", 1024)
    max_knns: int = option("candidates that a walk yields at most", 1024)
    max_states: int = option("states that a walk is in at most, those most pointed to", 4096)
    follow: str = option(
        "whose pointers are followed: all members' of the states, or last step's candidates'",
        "members",
        choices=("members", "scored"),
    )
    count: str = option(
        "what tau is compared with: the states reached, or last step's candidates that had the "
        "right value",
        "states",
        choices=("states", "entries"),
    )
    members: str = option(
        "what follows the pointers: the other members of the states by hash, or all members by "
        "state and entry, pointers repeated",
        "hashed",
        choices=("hashed", "listed"),
    )
    duplicates: str = option(
        "whether an entry that is found by search and by walk counts twice",
        "keep",
        choices=("keep", "drop"),
    )
    pointer_weight: float = option("factor of the weight of entries that were pointed to", 1.0)
    seed: int = option("seed of the hash that orders members", 0)


PRESETS = {
    "paper": WalkSettings(),
    "reference": WalkSettings(follow="scored", count="entries", members="listed"),
}


def check_walk(settings: WalkSettings) -> None:
    """Refuse settings that make no sense."""
    for name in ("k", "max_knns", "max_states"):
        if getattr(settings, name) < 1:
            flag = name.replace("_", "-")
            raise BadInput(f"--{flag} {getattr(settings, name)}: at least 1 is needed")
    if not 0 < settings.pointer_weight < float("inf"):
        raise BadInput(f"--pointer-weight {settings.pointer_weight}: must be above 0")
    if not 0 <= settings.seed < 1 << 63:
        raise BadInput(f"--seed {settings.seed}: must be between 0 and 2^63 - 1")


def check_tau(tau: float) -> None:
    """Refuse a threshold that no walk could fall below: it would never search, even at first."""
    if not tau >= 1:
        raise BadInput(f"--tau {tau}: must be 1 or more, or inf to search at every position")
