"""Calibrating all methods on held-out text, once; what was found is kept with the evaluation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from retomaton_dist.errors import DamagedStore
from retomaton_dist.methods.method import Calibrated, Method, Setup, arrays_below
from retomaton_dist.runtime.progress import counted
from retomaton_dist.scores.scores import Scores
from retomaton_dist.storage import canonical, files
from retomaton_dist.storage.canonical import Json

FACTS, ARRAYS = "calibration.json", "calibration.safetensors"
_REMEDY = "delete it and run the same command again"

Found = Mapping[str, Calibrated]


def calibrate(
    out: Path,
    methods: Sequence[Method],
    scores: Scores | None,
    setup: Setup,
    inputs: Json,
    progress: str | None = "none",
) -> Found:
    """Calibrate, or read what an earlier run with the same inputs found.

    What is found anew is kept at once, but not if a text was scored before: its results are made
    with what was found then, until `keep` is called after the text was scored for this.
    """
    known = read(out, inputs)
    if known is not None:
        return known
    fitted = counted(methods, progress, "fit", "methods")
    found = {method.name: method.calibrate(scores, setup) for method in fitted}
    if not (out / "text").exists():
        keep(out, found, inputs)
    return found


def read(out: Path, inputs: Json | None = None) -> Found | None:
    """What was found before; None if nothing was, or if it was from other `inputs`."""
    if not (out / FACTS).exists():
        return None
    facts = canonical.read(out / FACTS, _REMEDY)
    if inputs is not None and canonical.content_hash(facts["inputs"]) != canonical.content_hash(
        inputs
    ):
        return None
    try:
        # Evaluations of before it was kept have no digest.
        if facts.get("arrays", digest := files.digest_of(out / ARRAYS).digest) != digest:
            raise DamagedStore(f"{out / ARRAYS}: its contents were altered; {_REMEDY}")
        arrays = load_file(out / ARRAYS)
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedStore(f"{out / ARRAYS} cannot be read: {error}; {_REMEDY}") from error
    return {
        name: Calibrated(item, arrays_below(arrays, f"{name}:"))
        for name, item in facts["methods"].items()
    }


def keep(out: Path, found: Found, inputs: Json) -> None:
    """Keep what was found from these inputs, in place of what was found before."""
    arrays = {
        f"{name}:{key}": np.ascontiguousarray(array)
        for name, calibrated in found.items()
        for key, array in calibrated.arrays.items()
    }
    kept = files.write(out / ARRAYS, save(arrays))
    facts = {name: calibrated.facts for name, calibrated in found.items()}
    canonical.write(out / FACTS, {"methods": facts, "inputs": inputs, "arrays": kept.digest})
