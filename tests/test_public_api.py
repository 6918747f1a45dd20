"""The public API: its names and their page, what an import costs, the command line, and the first example."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rollup_node
from rollup_node.tools.importers import api_docs

ROOT = Path(__file__).parent.parent
INIT = ROOT / "src" / "rollup_node" / "__init__.py"
PAGE = api_docs.PAGE.read_text()


def _run(code: str, *words: str, folder: Path = ROOT) -> str:
    """Run Python on a code, or on a module; what it prints."""
    command = [sys.executable, *(("-c", code) if code else ()), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_has_every_public_name() -> None:
    described = set(re.findall(r"^### `(\w+)`$", PAGE, re.MULTILINE))
    assert described | {"__version__"} == set(rollup_node.__all__) and "`rollup_node.__version__`" in PAGE
    assert sorted(rollup_node.__all__) == sorted(set(rollup_node.__all__)) == sorted(dir(rollup_node))


def test_every_name_is_there_with_a_docstring() -> None:
    for name in set(rollup_node.__all__) - {"__version__"}:
        value = getattr(rollup_node, name)
        assert inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="no attribute 'deriver'"):
        getattr(rollup_node, "deriver")  # noqa: B009


def test_type_checkers_see_the_same_names() -> None:
    """They do not run `__getattr__`."""
    (typed,) = [node for node in ast.parse(INIT.read_text()).body if isinstance(node, ast.If)]
    imported = {alias.name for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(rollup_node.__all__) - {"__version__"} == set(rollup_node._HOMES)
    for node in typed.body:
        if isinstance(node, ast.ImportFrom):
            homes = {rollup_node._HOMES[alias.name] for alias in node.names}
            assert {f"rollup_node.tools.api.{home}" for home in homes} == {node.module}


def test_an_import_loads_nothing_until_a_name_is_used() -> None:
    """Nor does `derive` load the stages before it is called."""
    loaded = "print(*sorted(name for name in sys.modules if name.startswith(('rollup_node', 'msgspec', 'zmq'))))"
    assert _run(f"import rollup_node, sys; {loaded}").split() == ["rollup_node"]
    names = _run(f"from rollup_node import Network, derive; import sys; {loaded}").split()
    assert "zmq" not in names and not any(".derivation.pipeline" in name or ".process" in name for name in names)


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert rollup_node.__version__ == project["version"]
    assert _run("", "-m", "rollup_node", "--version") == f"rollup-node version v{project['version']}\n"


def test_the_first_example_of_the_page_runs(shared_data: Path) -> None:
    (example, *_) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    printed = _run(example, folder=shared_data)
    assert [line.split()[:3] for line in printed.splitlines()] == [
        ["16491248", "6582952", "6"],
        ["16491249", "6582952", "12"],
    ]


def test_the_package_has_only_what_the_api_needs() -> None:
    names = {path.name for path in INIT.parent.iterdir() if path.name != "__pycache__"}
    assert names == {"__init__.py", "__main__.py", "py.typed", "ipc", "node", "stages", "tools"}
