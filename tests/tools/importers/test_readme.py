"""The generated sections of README.md are current."""

from enum import IntEnum

from rollup_node.tools.importers.generated_sections import with_sections
from rollup_node.tools.importers.readme import README, SECTIONS, exit_codes, members_with_texts


class Colour(IntEnum):
    """Not a member."""

    RED = 1
    """Like fire."""
    BLUE = 2


def test_the_readme_is_current() -> None:
    text = README.read_text()
    assert with_sections(text, SECTIONS) == text, "run `python -m rollup_node.tools.importers.readme`"


def test_members_with_their_texts() -> None:
    assert list(members_with_texts(Colour)) == [(Colour.RED, "Like fire.")]


def test_every_exit_code_has_a_row() -> None:
    codes = [int(row.split("|")[1]) for row in exit_codes().splitlines()[2:]]
    assert codes == sorted(codes) and {0, 1, 3, 70, 130} <= set(codes)
