"""Every warning and error of the product has a code of the table, and every code of the table is used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.stages.messages.codes import Code
from rollup_node.tools.dev.folder_graph import parsed

ROOT = Path(__file__).parent.parent
LEVELS = {"warn", "error"}
LOGGERS = {"log", "_log", "logger", "_logger", "_warnings", "warnings"}
TABLE = Path("stages/messages/codes.py")
SOURCES = ("stages", "node", "tools/commands", "tools/history", "tools/inspect", "tools/preflight")
WITHOUT = {
    "stages/engine/process/call_runner.py": "the core's last events, before the line of the error, which has the code",
    "stages/io/log/lasting_conditions.py": "the code is among the fields, checked where they are given",
}
"""Files whose calls pass on what their callers give. The list may only become shorter."""


def _sources() -> list[Path]:
    return sorted(path.relative_to(ROOT) for top in SOURCES for path in (ROOT / top).rglob("*.py"))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _bare(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that write warnings or errors without `code=`, also where a function is chosen first."""
    written = {
        _name(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if any(_is_level(item) for item in ast.walk(node.value))
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        is_write = _is_level(node.func) or (isinstance(node.func, ast.Name) and node.func.id in written)
        is_choice = isinstance(node.func, ast.IfExp) and any(_is_level(item) for item in ast.walk(node.func))
        if (is_write or is_choice) and not any(keyword.arg == "code" for keyword in node.keywords):
            yield node.lineno
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "write" and _name(node.func.value) in LOGGERS:
            levels = {_name(arg) for arg in node.args if isinstance(arg, ast.Attribute)} & {"WARN", "ERROR"}
            if levels and not any(isinstance(item, ast.Constant) and item.value == "code" for item in ast.walk(node)):
                yield node.lineno


def _is_level(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in LEVELS and _name(node.value) in LOGGERS


@pytest.mark.condition("C15")
def test_every_warning_and_error_has_a_code() -> None:
    loggers = re.compile(rf"\b({'|'.join(LOGGERS)})\b")
    with_logger = [path for path in _sources() if loggers.search((ROOT / path).read_text())]
    result = {str(path): list(_bare(parsed((ROOT / path).read_text()))) for path in with_logger}
    bare = {path: lines for path, lines in result.items() if lines}
    assert {path: lines for path, lines in bare.items() if path not in WITHOUT} == {}
    assert set(WITHOUT) == set(bare), "an exception that is not needed any more goes"


def test_the_check_sees_a_warning_without_a_code() -> None:
    lines = [
        'log.warn("a", b=1)',
        'self._log.error("a", code=Code.FILE.text)',
        'self._warnings.warn("kind", "a")',
        "write = log.error if bad else log.info",
        'write("a")',
        '(log.warn if bad else log.debug)("a")',
        'output.error("to the terminal")',
        'log.write(Level.ERROR, "a", {"b": 1})',
        'log.write(Level.ERROR, "a", {"code": Code.FILE.text})',
    ]
    assert sorted(_bare(ast.parse("\n".join(lines)))) == [1, 3, 5, 6, 8]


def test_every_code_is_used() -> None:
    text = "".join((ROOT / path).read_text() for path in _sources() if path != TABLE)
    assert [code.name for code in Code if f"Code.{code.name}" not in text] == []
