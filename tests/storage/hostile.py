"""JSON files that are whole, with a digest that fits, and say what nobody wrote."""

import copy

from hypothesis import strategies as st

from retomaton_dist.storage import canonical

NAMES = ["", ".", "..", "../x", "../../x", "/etc/passwd", "a/../../x", "a\0b", "x" * 300, "é"]
NUMBERS = [0, -1, 1, 7, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308]
SCALARS = st.sampled_from([*NAMES, *NUMBERS, None, True, False, "done", "running", "none", "pq"])
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS)


@st.composite
def altered(draw, value, times=2):
    """The value with a few parts replaced, dropped, renamed or added, anywhere."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, times))):
        value = _alter(draw, value)
    return value


def _alter(draw, value):
    keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return draw(VALUES)
    key = draw(st.sampled_from(keys))
    if isinstance(value[key], dict | list) and value[key] and draw(st.integers(0, 3)):
        value[key] = _alter(draw, value[key])
        return value
    how = draw(st.sampled_from(["replace", "replace", "drop", "rename"]))
    item = value.pop(key)
    if how == "replace":
        item = draw(VALUES)
    if isinstance(value, list):
        return value if how == "drop" else [*value[:key], item, *value[key:]]
    if how != "drop":
        value[draw(st.sampled_from(NAMES)) if how == "rename" else key] = item
    return value


def signed(path, value):
    """Write the value as a sound file of its kind, as far as there can be one."""
    path.write_bytes(canonical.serialise(value if isinstance(value, dict) else {"value": value}))
