"""Reading the pages of README.md and docs/: their fenced blocks, and the commands in them."""

import re
from dataclasses import dataclass

from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: `kind` is what stands behind the fence."""

    kind: str
    text: str

    def commands(self):
        """What is typed, each with the output that the page shows: lines of `$` in a console.

        A line that ends with a backslash goes on in the next.
        """
        text = self.text.replace("\\\n", "")
        if self.kind == "sh":
            return [(line, []) for line in text.splitlines() if line.strip()]
        found = []
        for line in text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def blocks_of(page):
    """The page's fenced blocks, in their order."""
    return [Block(kind, text) for kind, text in FENCED.findall(page.read_text())]
