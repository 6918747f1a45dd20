"""Tables between the marks of a page."""

import pytest

from rollup_node.tools.devnet.soak.page import PageError, marks, with_table


def test_a_table_takes_the_place_of_the_one_before() -> None:
    first, last = marks("soak")
    page = f"# Title\n{first}\nold\n{last}\ntext\n"
    found = with_table(page, "soak", ["a", "b"])
    assert found == f"# Title\n{first}\na\nb\n{last}\ntext\n"
    assert with_table(found, "soak", ["a", "b"]) == found


def test_a_page_without_marks() -> None:
    first, last = marks("soak")
    for page in ("# Title\n", f"{last}\n{first}\n", f"{first}\n"):
        with pytest.raises(PageError, match="--page: it has no lines"):
            with_table(page, "soak", [])
