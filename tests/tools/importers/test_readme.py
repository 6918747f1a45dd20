"""The generated sections of README.md are current."""

from rollup_node.tools.importers.generated_sections import with_sections
from rollup_node.tools.importers.readme import README, SECTIONS


def test_the_readme_is_current() -> None:
    text = README.read_text()
    assert with_sections(text, SECTIONS) == text, "run `python -m rollup_node.tools.importers.readme`"
