"""The bounds of the repository: what is counted, and how a table that does not hold is shown."""

import subprocess
from pathlib import Path

import pytest

from rollup_node.tools.dev import bounds

PYPROJECT = """
[tool.setuptools.packages.find]
exclude = ["rollup_node.tools.bench*", "rollup_node.tools.dev"]
[tool.setuptools.package-data]
"*" = ["*.json"]
"""
LONG = "def long():\n" + "    pass\n" * bounds.MAX_FUNCTION_LINES


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": PYPROJECT,
        "node/a.py": "class Same: ...\nclass _Own: ...\n",
        "stages/b.py": "class Same: ...\nclass _Own: ...\nclass Other: ...\n",
        "ipc/data.json": "{}\n",
        "ipc/notes.md": "not packaged\n",
        "tools/bench/race/run.py": LONG,
        "tools/dev/c.py": "found = 1\n",
        "tools/devnet/d.py": "\n" * (bounds.MAX_FILE_LINES + 1),
        "tests/test_a.py": "def test(given):\n    print([each for each in given])\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_what_is_counted(checkout: Path) -> None:
    lines, wheel, tests, classes, files, functions, names = bounds.bounds(checkout)
    assert (lines.now, wheel.now, tests.now) == (5, 4, 2) and lines.holds
    assert list(classes.places) == ["Same: node/a.py, stages/b.py"] and not classes.holds
    assert list(files.places) == ["tools/devnet/d.py"]
    assert list(functions.places) == [f"tools/bench/race/run.py:1 long: {bounds.MAX_FUNCTION_LINES + 1} lines"]
    assert sorted(names.places) == ["tests/test_a.py:1 given", "tests/test_a.py:2 each", "tools/dev/c.py:1 found"]
