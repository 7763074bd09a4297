"""The demo's text: the source of Python's own standard library.

Its tests, idlelib, the tables in encodings and the reference text in pydoc_data are left out. A
hash of a file's path decides whether it belongs to the corpus, to the text for calibration, or to
the text that is evaluated. Of the latter two only short files are taken, so that a few thousand
positions come from many modules. The choice is the same on every machine with the same Python.
"""

import hashlib
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# pydoc_data is the language reference as one huge string, encodings are tables: not source.
LEFT_OUT = {"test", "tests", "idlelib", "pydoc_data", "encodings", "site-packages", "__pycache__"}
# Bounds of the hash, a number from 0 to 1; the corpus comes to about 400,000 entries.
PARTS = {"corpus": (0.0, 0.2), "calibration": (0.2, 0.5), "test": (0.5, 0.8)}
SHORT_BYTES = 8_000


def prepare(folder: Path) -> dict[str, Path]:
    """Copy the chosen files into a folder per part, anew; return the folders."""
    shutil.rmtree(folder, ignore_errors=True)
    parts = {name: folder / name for name in PARTS}
    for path, name in library_files():
        part = part_of(name)
        if part and (part == "corpus" or path.stat().st_size <= SHORT_BYTES):
            target = parts[part] / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return parts


def library_files() -> Iterator[tuple[Path, str]]:
    """Source files of the standard library, with their names below its folder, in order."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        name = path.relative_to(library)
        if path.stat().st_size and not LEFT_OUT.intersection(name.parts):
            yield path, name.as_posix()


def part_of(name: str) -> str | None:
    """Which part a file belongs to, by the hash of its name."""
    place = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
    return next((part for part, (low, high) in PARTS.items() if low <= place < high), None)
