"""A small store, made in seconds for benchmarks with `--small`; run by itself it measures nothing.

Its model has random weights, so that figures over it only show that a benchmark works.
"""

from dataclasses import dataclass
from pathlib import Path

import retomaton_dist as rd
from tests.benchmarks.tokenizing import generated_text
from tests.conftest import save_tiny_model

CORPUS_LINES, TEXT_LINES = 600, 60


@dataclass(frozen=True)
class SmallStore:
    """A store of all stages, and a text that it was not made from."""

    path: Path
    text: Path


def build_small(folder):
    """Build both in a folder, without Ray."""
    lines = generated_text(1 << 17).splitlines(keepends=True)
    corpus, text = folder / "corpus.txt", folder / "text.txt"
    corpus.write_bytes(b"".join(lines[:CORPUS_LINES]))
    text.write_bytes(b"".join(lines[CORPUS_LINES : CORPUS_LINES + TEXT_LINES]))
    chosen = {"corpus": corpus, "split": "line", "model": save_tiny_model(folder / "model")}
    rd.build(folder / "small.store", workers=0, progress="none", **chosen)
    return SmallStore(folder / "small.store", text)
