"""README.md and docs/: links lead somewhere, and every command that is shown is one."""

import re
import shlex

import pytest

from retomaton_dist.cli.main import _parser
from tests.conftest import ROOT
from tests.docs.pages import PAGES, blocks_of

README_BYTES = 8 * 1024
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def anchors_of(page):
    """What GitHub calls the page's headings in links."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_its_links_lead_to_pages_and_headings_that_there_are(page):
    for link in LINK.findall(page.read_text()):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_that_it_shows_have_these_flags(page):
    for block in blocks_of(page):
        if block.kind not in ("console", "sh"):
            continue
        for command, _ in block.commands():
            words = shlex.split(command, comments=True)
            if words[:1] == ["retomaton"]:
                parse(words[1:])


def parse(words):
    """Parse as the command line does; a job's own flags as its command's."""
    try:
        parsed = _parser().parse_args(words)
    except SystemExit:
        pytest.fail(f"no such command: retomaton {shlex.join(words)}")
    if parsed.command == "submit":
        job = [word for word in words[1:] if word != "--detach"]
        if job[0] not in ("list", "follow", "stop"):
            parse(without_address(job))


def without_address(words):
    """`--address` may stand behind the job's name, though it is a flag of `submit`."""
    if "--address" not in words:
        return words
    place = words.index("--address")
    return [*words[:place], *words[place + 2 :]]
