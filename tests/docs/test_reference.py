"""docs/reference/ says what the declarations say."""

import pytest

from tests.docs.reference import FOLDER, pages

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_what_the_declarations_make(name):
    assert (FOLDER / name).read_text() == PAGES[name], f"docs/reference/{name}: run `make docs`"
