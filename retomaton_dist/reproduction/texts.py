"""The two texts of the paper's kind: what lies in the data folder, and corpora drawn from it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retomaton_dist.corpus.documents import read_texts
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import CorpusSettings
from retomaton_dist.storage import files

PARTS = ("train", "valid", "test")
SEED = 0


@dataclass(frozen=True)
class Domain:
    """A text in three parts: what stores are made of, what is calibrated on, what is evaluated."""

    folder: str
    ending: str
    split: str

    def path(self, data: Path, part: str) -> Path:
        """Where a part lies."""
        return data / self.folder / f"{part}{self.ending}"

    def check(self, data: Path) -> None:
        """Refuse a data folder that lacks a part."""
        for part in PARTS:
            path = self.path(data, part)
            if not path.is_file():
                raise BadInput(
                    f"{path}: no such file; --data needs {self.folder}/{{train,valid,test}}"
                    f"{self.ending}"
                )
            if not path.stat().st_size:
                raise BadInput(f"{path} is empty; --data needs text there")

    def corpus(self, path: Path) -> CorpusSettings:
        """A text of this domain as settings."""
        return CorpusSettings(corpus=(str(path),), split=self.split)


# Articles begin with a line ` = Title = `; law has a sentence per line.
WIKI = Domain("wikitext-2", ".txt", "regex: = [^=]")
LAW = Domain("law", ".en", "line")


def draw_corpus(domain: Domain, data: Path, most_bytes: int | None, folder: Path) -> Path:
    """The training text, or documents drawn from it until they have so many bytes, in its order.

    A smaller draw is part of every larger one. What is there already is kept if it is the same.
    """
    whole = domain.path(data, "train")
    if most_bytes is None or whole.stat().st_size <= most_bytes:
        return whole
    texts = [text.removesuffix("\n") + "\n" for text in read_texts(domain.corpus(whole))]
    drawn = "".join(texts[place] for place in _drawn(texts, most_bytes)).encode()
    path = folder / f"{domain.folder}-{most_bytes}{domain.ending}"
    if not path.exists() or path.read_bytes() != drawn:
        files.write(path, drawn)
    return path


def _drawn(texts: list[str], most_bytes: int) -> list[int]:
    order = np.random.default_rng(SEED).permutation(len(texts))
    sizes = np.cumsum([len(texts[place].encode()) for place in order])
    # One document at least, however long.
    many = max(1, int(np.searchsorted(sizes, most_bytes, side="right")))
    return sorted(order[:many].tolist())
