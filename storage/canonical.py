"""JSON files that notice any change to themselves: the manifest and the completion records.

Such a file is canonical JSON (sorted keys, two spaces, one final newline) with a `digest` over
all its other keys. It is sound only if its bytes equal what its own contents would be written
as, so that even a flipped bit in its white space is found.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from retomaton_dist.storage import files
from retomaton_dist.storage.errors import DamagedStore

Json = dict[str, Any]


def content_hash(value: Any) -> str:
    """SHA-256 of a JSON value in its shortest canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def serialise(value: Json) -> bytes:
    """Bytes of the file that holds `value` and its digest."""
    signed = {**value, "digest": content_hash(value)}
    text = json.dumps(signed, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def parse(data: bytes, path: Path, remedy: str) -> Json:
    """Return what `serialise` was given; anything else than its exact bytes is damage."""
    try:
        value = json.loads(data)
        sound = isinstance(value, dict) and serialise(_unsigned(value)) == data
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise DamagedStore(f"{path} is damaged: it does not match its own digest; {remedy}")
    return _unsigned(value)


def write(path: Path, value: Json) -> None:
    """Replace the file durably."""
    files.write(path, serialise(value))


def read(path: Path, remedy: str) -> Json:
    """Read and check the file; `remedy` is what the user should do if it is damaged."""
    files.check_plain(path)
    return parse(path.read_bytes(), path, remedy)


def _unsigned(value: Json) -> Json:
    return {key: item for key, item in value.items() if key != "digest"}
