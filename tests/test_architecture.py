"""The rules of the folder structure (DESIGN 2), checked on the source text."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMESPACE = "rollup_node"
PACKAGES = ("ipc", "stages", "node", "tools")
MAY_IMPORT = {
    "ipc": {"ipc"},
    "stages": {"ipc", "stages"},
    "node": {"ipc", "stages", "node"},
    "tools": set(PACKAGES),
}
SHELL_FILE = re.compile(r"(process\w*|client\w*|server\w*|transport\w*|store\w*|metrics)\.py")
IMPURE = {"asyncio", "aiohttp", "zmq", "socket", "ssl", "time", "random", "os", "logging", "threading", "subprocess"}
IMPURE_INNER = (f"{NAMESPACE}.ipc.bus", f"{NAMESPACE}.ipc.wire.sockets", f"{NAMESPACE}.stages.io")
STAGES = {"l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc"}
FORKS = re.compile(
    r"\b(regolith|canyon|delta|ecotone|fjord|granite|holocene|isthmus|jovian|karst|lagoon)\b", re.IGNORECASE
)
MAX_LINES = 500
WITHOUT_TEST = {"__init__.py", "__main__.py"}


def _sources(*tops: str) -> list[Path]:
    return sorted(path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.py"))


def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def _top_level(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run at import, without function bodies."""
    found: list[ast.stmt] = []
    for node in tree.body:
        found.append(node)
        if isinstance(node, ast.If | ast.Try):
            found.extend(child for child in ast.walk(node) if isinstance(child, ast.stmt))
    return found


def _imported(nodes: list[ast.stmt] | list[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _all_imports(path: Path) -> set[str]:
    return _imported(list(ast.walk(_tree(path))))


def _ours(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith(f"{NAMESPACE}.")}


@pytest.mark.parametrize("path", _sources(*PACKAGES), ids=str)
def test_imports_run_one_way(path: Path) -> None:
    top = path.parts[0]
    names = _all_imports(path)
    allowed = MAY_IMPORT[top] | ({"tools"} if path == Path("node/cli.py") else set())
    assert _ours(names) <= allowed
    assert not {name.split(".")[0] for name in names} & set(PACKAGES), "a module must have one name"
    if path == Path("node/cli.py"):
        assert "tools" not in _ours(_imported(_top_level(_tree(path)))), "the command line imports tools lazily"


@pytest.mark.parametrize("path", _sources("stages"), ids=str)
def test_only_shells_touch_the_world(path: Path) -> None:
    if SHELL_FILE.fullmatch(path.name) or {"io", "process"} & set(path.parts):
        return
    names = _all_imports(path)
    assert not {name.split(".")[0] for name in names} & IMPURE
    assert not [name for name in names if name.startswith(IMPURE_INNER) and ".channels" not in name]


@pytest.mark.parametrize("path", _sources("stages"), ids=str)
def test_stages_stay_apart(path: Path) -> None:
    if len(path.parts) < 3 or path.parts[1] not in STAGES:
        return
    own = path.parts[1]
    others = {name.split(".")[2] for name in _all_imports(path) if name.startswith(f"{NAMESPACE}.stages.")}
    foreign = (others & STAGES) - {own}
    if own == "compute":
        inner = [name.split(".") for name in _all_imports(path) if name.startswith(f"{NAMESPACE}.stages.")]
        assert all(parts[3:4] == ["tasks"] or parts[3:4] == [] for parts in inner if parts[2] in foreign)
        return
    assert not foreign


def _compared_names(tree: ast.Module) -> list[str]:
    """Names and strings that stand in a comparison or a condition."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    found.append(part.id)
                elif isinstance(part, ast.Attribute):
                    found.append(part.attr)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.append(part.value)
    return [name for name in found if FORKS.search(name.replace("_", " "))]


@pytest.mark.parametrize("path", _sources("ipc", "stages", "node"), ids=str)
def test_only_the_fork_table_compares_forks(path: Path) -> None:
    if path.parts[:3] == ("stages", "protocol", "forks"):
        return
    assert _compared_names(_tree(path)) == []


def test_folders_with_modules_are_packages() -> None:
    folders = {path.parent for path in _sources(*PACKAGES)}
    packages = {path.parent for path in _sources(*PACKAGES) if path.name == "__init__.py"}
    assert folders == packages


@pytest.mark.parametrize("path", _sources(*PACKAGES, "tests"), ids=str)
def test_files_stay_short(path: Path) -> None:
    assert len((ROOT / path).read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", _sources("tests"), ids=str)
def test_tests_mirror_the_source(path: Path) -> None:
    if not path.name.startswith("test_") or len(path.parts) < 3 or path.parts[1] not in PACKAGES:
        return
    mirrored = ROOT.joinpath(*path.parts[1:-1])
    assert mirrored.is_dir(), f"tests/{path.parts[1]} mirrors the source: {mirrored} is missing"


def test_no_unfinished_marks_are_committed() -> None:
    words = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"])
    found = [str(path) for path in _sources(*PACKAGES) if re.search(rf"\b({words})\b", (ROOT / path).read_text())]
    assert found == []


def test_no_path_of_a_machine_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    pattern = re.compile(r"/(ro" + r"ot|wo" + r"rk|fa" + r"rm)/[a-z]")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".sh", ""} and path.is_file():
            assert not pattern.search(path.read_text(errors="replace")), name
