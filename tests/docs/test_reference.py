"""docs/reference/ says what the declarations say."""

from tests.docs.reference import FOLDER, pages


def test_the_reference_is_what_the_declarations_make():
    stale = [name for name, text in pages().items() if (FOLDER / name).read_text() != text]
    assert not stale, f"docs/reference/{', '.join(stale)}: run `make docs`"
