"""How fast a worker is: what the cost model divides work by.

The dry run measures these where the build will run (`probes.py`). `retomaton plan` takes what was
measured on the machine named below, unless a file says otherwise, such as one that
`python -m tests.benchmarks.scale --rates FILE` wrote.
"""

import dataclasses
import json
import math
from pathlib import Path

from retomaton_dist.errors import BadInput
from retomaton_dist.stages.cost import Rates
from retomaton_dist.storage.files import check_plain

MEASURED_ON = "one of 2 cores, no GPU, 2026-11-17, by CPU time"
# On keys of 64 numbers. The first three, and `ordered`, by the benchmark `scale`: near those that
# explain what the CPU time of whole stages grew by from 10^6 to 10^7 entries, and from there to
# 10^8 (products: 0.68 and 0.74 x 10^10, in a later run 0.78 and 0.88); the others by `probes.py`.
MEASURED_WIDTH = 64
MEASURED = Rates(
    products=7.1e9,
    searched=1.8e10,
    encoded=1.1e5,
    placed=5.0e6,
    ordered=1.05e6,
    hashed=1.77e9,
    worker_bytes=3.0e8,
    swept=9.5e9,
)
# What a whole stage gets done of what its innermost loop alone would, which is all that probes
# time: there they gave 1.15 x 10^10 products, 3.3 x 10^10 searched and 1.35 x 10^5 encoded.
WHOLE_STAGE = 0.52
# Wider keys: probes on 768 numbers gave 1.88 times the products and 0.155 times the codes.
WIDER_PRODUCTS, WIDER_CODES = 0.25, -0.75
# Operations per second of a model's forward pass: SmolLM2-135M reads 170 to 350 tokens a second on
# two such cores, without its LM head.
CORE_OPERATIONS = 3.5e10
# There was no GPU to measure: a third of what an A100 (312 x 10^12 in float16, 19.5 x 10^12 in
# float32) is sold with.
GPU_OPERATIONS, GPU_PRODUCTS = 1e14, 3e12
# Bytes of text that a core tokenises in a second.
TOKENISED_BYTES = 1.5e6
# Bytes per second of a local disk, where what is read does not fit in memory. Assumed, too.
DISK_BYTES = 1e9


def widened(rates: Rates, dimension: int) -> Rates:
    """Rates that were measured on keys of 64 numbers, for others."""
    wider = dimension / MEASURED_WIDTH
    products = rates.products * wider**WIDER_PRODUCTS
    return dataclasses.replace(rates, products=products, encoded=rates.encoded * wider**WIDER_CODES)


def read_rates(path: str | Path) -> Rates:
    """The rates measured here, but for those that a JSON file has."""
    known = {field.name for field in dataclasses.fields(Rates)}
    try:
        check_plain(Path(path))
        found = json.loads(Path(path).read_text())
    except OSError as error:
        raise BadInput(f"--rates {path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--rates {path} is not JSON: {error}") from error
    if not isinstance(found, dict) or not found.keys() <= known:
        raise BadInput(f"--rates {path}: must be an object of {', '.join(sorted(known))}")
    for name, value in found.items():
        sound = isinstance(value, int | float) and not isinstance(value, bool)
        if not sound or not 0 < value < math.inf:
            raise BadInput(f"--rates {path}: {name} is {value}, and must be a number above 0")
    return dataclasses.replace(MEASURED, **found)
