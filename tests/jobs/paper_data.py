"""A tiny data folder of the layout that `reproduce` wants."""

import random

from tests.conftest import TEXT

LINES = {"train": 240, "valid": 40, "test": 40}


def write_data(folder):
    """Law of short sentences and a Wikipedia of short articles, always the same."""
    for name in ("law", "wikitext-2"):
        (folder / name).mkdir(parents=True)
    for seed, (part, many) in enumerate(LINES.items()):
        chosen = random.Random(seed)
        lines = [_line(chosen, number) for number in range(many)]
        (folder / f"law/{part}.en").write_text("\n".join(lines) + "\n")
        articles = [
            f" = Article {seed} {number} = \n\n {line} \n\n" for number, line in enumerate(lines)
        ]
        (folder / f"wikitext-2/{part}.txt").write_text("".join(articles))
    return folder


def _line(chosen, number):
    words = " ".join(chosen.choices(TEXT.split(), k=chosen.randint(3, 9)))
    return f"{number} {words}"
