"""What every refusal of the command line has in common."""

from tests.conftest import contents


def check_refused(result, *said):
    """Exit code 2 and exactly one line on stderr, which says all of this."""
    lines = result.stderr.splitlines()
    assert (result.returncode, result.stdout, len(lines)) == (2, "", 1), result
    assert lines[0].startswith("retomaton")
    assert ": error: " in lines[0]
    for words in said:
        assert str(words) in lines[0]


def check_refused_without_a_trace(result, store, *said):
    """Refused, and what would have become the store is not there."""
    check_refused(result, *said)
    assert not store.exists()


class Unchanged:
    """Checks that a block leaves a folder as it was, byte for byte."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        self.before = contents(self.folder)

    def __exit__(self, *_):
        assert contents(self.folder) == self.before
