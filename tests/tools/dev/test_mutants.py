"""The mutants of a source file, and which tests they meet."""

import subprocess
from pathlib import Path

import pytest

from rollup_node.tools.dev import mutants
from rollup_node.tools.dev.mutants import Run, Tree, choose, mutants_of, sets_of_tests

SOURCE = '''LIMIT = 5


def is_low(ä, items, other):
    """Not changed: 1 < 2."""
    log.warning("not logic", number=1)
    if ä < 3 and not items:
        items.clear()
        other.count += 1
    return items is None or other[True]
'''


def test_each_change_of_a_function() -> None:
    changes = {(item.line, item.old, item.new) for item in mutants_of("x.py", SOURCE.encode())}
    assert changes == {
        (7, "ä < 3 and not items", "(not (ä < 3 and (not items)))"),
        (7, "ä < 3 and not items", "False"),
        (7, "ä < 3 and not items", "(ä < 3 or not items)"),
        (7, "ä < 3", "(ä <= 3)"),
        (7, "3", "(3 + 1)"),
        (7, "3", "(3 - 1)"),
        (7, "not items", "bool(items)"),
        (8, "items.clear()", "pass"),
        (9, "other.count += 1", "pass"),
        (9, "1", "(1 + 1)"),
        (9, "1", "(1 - 1)"),
        (10, "return items is None or other[True]", "return None"),
        (10, "items is None or other[True]", "(items is None and other[True])"),
        (10, "items is None", "(items is not None)"),
        (10, "True", "False"),
    }


def test_a_seed_gives_the_same_mutants_of_real_files() -> None:
    chosen = choose(mutants.ROOT, "rpc", 5, 3)
    assert chosen == choose(mutants.ROOT, "rpc", 5, 3) != choose(mutants.ROOT, "rpc", 5, 4)
    assert len(chosen) == 5 and all(item.path.startswith("stages/rpc/") for item in chosen)


def toy_tree(folder: Path) -> Path:
    """Return a repository with one file of a stage, its test, and one of its topic."""
    files = {
        "stages/rpc/heads/low.py": "def is_low(number):\n    return number < 3 or number > 9\n",
        "tests/stages/rpc/heads/test_low.py": (
            "import runpy\n"
            "is_low = runpy.run_path('stages/rpc/heads/low.py')['is_low']\n"
            "def test_low(): assert is_low(2)\n"
        ),
        "tests/stages/rpc/heads/test_more.py": "from test_low import is_low\ndef test_more(): assert not is_low(3)\n",
        "tests/stages/rpc/test_bad.py": "def test_bad(): assert False\n",
        "pytest.ini": "[pytest]\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def test_mutants_meet_the_nearest_tests_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The toy tests need no other plugin, which take longer to import than the tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    root = toy_tree(tmp_path / "root")
    path = "stages/rpc/heads/low.py"
    mirrored, topic, stage = sets_of_tests(root, path)
    assert mirrored == ("tests/stages/rpc/heads/test_low.py",)
    assert (topic, stage) == (("tests/stages/rpc/heads",), ("tests/stages/rpc",))
    source = (root / path).read_bytes()
    wanted = {"return None": mirrored[0], "(number <= 3)": topic[0], "(number >= 9)": ""}
    changes = [item for item in mutants_of(path, source) if item.new in wanted]
    run = Run([Tree(tmp_path / "copy", root)], 30)
    killers: dict[str, str] = {mutant.new: tests for mutant, tests in run.killers(changes)}
    assert killers == wanted
    assert capsys.readouterr().err.count("fail or take too long") == 1, "the stage's test fails on unchanged source"
    assert (tmp_path / "copy" / path).read_bytes() == source
