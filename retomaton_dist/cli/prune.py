"""`retomaton prune`: set free what a store no longer needs."""

import argparse
from pathlib import Path

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.errors import BadInput
from retomaton_dist.settings.choices import CODECS
from retomaton_dist.settings.stages import STAGES

# Stages that name what they make, by their flags.
STAGE_OF = {stage.prune[0]: stage for stage in STAGES if stage.named}
# What is deleted by name, with its help.
NAMED = {
    "evaluation": "delete an evaluation of STORE/evaluations; its name is free then",
    "calibration": "delete a calibration",
    **dict(stage.prune for stage in STAGE_OF.values()),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store, and what is to go."""
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument(
        "--keys",
        action="store_true",
        help="delete the keys for good: walking needs only an automaton's codes. Clustering, "
        "indexing and other codecs need the keys, so finish those first",
    )
    for name, about in NAMED.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=about)


def run(call: Invocation) -> int:
    """Delete what was named and say how many bytes that set free."""
    named = {kind: call[kind] for kind in NAMED if call.get(kind) is not None}
    if not call.get("keys") and not named:
        flags = ", ".join(f"--{kind} NAME" for kind in NAMED)
        raise BadInput(f"nothing was named to be deleted; say --keys, {flags}")
    from retomaton_dist.calibration.calibration import CALIBRATIONS
    from retomaton_dist.storage.prune import NamedPart, prune_evaluation, prune_keys, prune_part
    from retomaton_dist.storage.store import Store, writing

    parts = {flag: NamedPart(flag, stage.name, stage.folder) for flag, stage in STAGE_OF.items()}
    parts["calibration"] = NamedPart("calibration", "calibrate", CALIBRATIONS)
    Store.open(call["store"])
    with writing(call["store"]) as writer:
        begun = list(writer.manifest.stages)

        def turn(item: tuple[str, str]) -> int:
            stage = f"{parts[item[0]].stage}/{item[1]}" if item[0] in parts else ""
            return begun.index(stage) if stage in begun else len(begun)

        # The latest first: what is made from others was begun after them.
        for kind, name in sorted(named.items(), key=turn, reverse=True):
            if kind == "evaluation":
                freed = prune_evaluation(Path(writer.path), name)
            else:
                freed = prune_part(writer, parts[kind], name)
            print(f"{kind} {name!r} deleted: {freed:,} bytes set free")
        if call.get("keys"):
            without_keys = [name for name in CODECS if CODECS[name].encodes]
            freed = prune_keys(writer, without_keys)
            print(f"keys deleted: {freed:,} bytes set free")
    return 0


COMMAND = Command(
    name="prune",
    summary="Delete parts of a store by name, or its keys once an automaton with pq codes exists.",
    arguments=add_arguments,
    run=run,
    examples="""
        retomaton prune law.store --keys                once `retomaton compile law.store` is done
        retomaton prune law.store --calibration fast    to calibrate anew under this name
        retomaton prune law.store --automaton coarse --states coarse

        killed? the same command again deletes what is left.
    """,
)
