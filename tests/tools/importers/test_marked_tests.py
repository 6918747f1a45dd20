"""The markers by which tests name what they show."""

from pathlib import Path

from rollup_node.tools.importers.marked_tests import NAMES, Mark, marks

FILE = """import pytest

pytestmark = [pytest.mark.fault("F9..F11"), pytest.mark.slow]


@pytest.mark.option("l1", "l2", by="url")
@pytest.mark.parametrize("number", [1])
async def test_it(number): ...


@pytest.mark.sign("MEMORY", line=True)
def test_another(): ...
"""


def test_markers_of_tests_and_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "test_it.py").write_text(FILE)
    (tmp_path / "test_none.py").write_text("def test_none(): ...")
    assert marks(tmp_path) == (
        Mark("fault", ("F9", "F10", "F11"), {}, "folder/test_it.py"),
        Mark("option", ("l1", "l2"), {"by": "url"}, "folder/test_it.py::test_it"),
        Mark("sign", ("MEMORY",), {"line": True}, "folder/test_it.py::test_another"),
    )


def test_markers_are_registered() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert all(f'"{name}(' in text for name in NAMES)
