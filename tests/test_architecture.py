"""The rules of the folder structure (DESIGN 2), checked on the source text."""

import ast
import functools
import re
import subprocess
import tomllib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

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
IMPURE_INNER = {f"{NAMESPACE}.ipc.{name}" for name in ("bus", "log", "jsonrpc", "sockets", "pool", "worker", "status")}
STAGES = {"l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc"}
SHARED_STAGE_FILES = {"messages.py", "topology.py", "metrics.py", "__init__.py"}
FORKS = re.compile(
    r"\b(regolith|canyon|delta|ecotone|fjord|granite|holocene|isthmus|jovian|karst|lagoon)\b", re.IGNORECASE
)
FORK_TABLE = ("stages", "protocol", "forks")
MAX_LINES = 500


def _sources(*tops: str) -> list[Path]:
    return sorted(path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.py"))


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def _assert_none(rule: Callable[[Path], Collection[str]], paths: Iterable[Path]) -> None:
    """No file has anything that breaks the rule; otherwise all that have are listed."""
    offenders = [f"{path}: {', '.join(sorted(broken))}" for path in paths if (broken := rule(path))]
    assert not offenders, "\n".join(offenders)


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


@functools.cache
def _all_imports(path: Path) -> set[str]:
    return _imported(list(ast.walk(_tree(path))))


def _ours(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith(f"{NAMESPACE}.")}


def _wrong_imports(path: Path) -> set[str]:
    """What a file may not import by the order of the packages, or imports by a second name."""
    names = _all_imports(path)
    is_command_line = path == Path("node/cli.py")
    wrong = _ours(names) - MAY_IMPORT[path.parts[0]] - ({"tools"} if is_command_line else set())
    wrong |= {name for name in names if name.split(".")[0] in PACKAGES}
    return wrong | ({"tools"} & _ours(_imported(_top_level(_tree(path)))) if is_command_line else set())


def test_imports_run_one_way() -> None:
    """The command line imports tools, lazily; a module has one name."""
    _assert_none(_wrong_imports, _sources(*PACKAGES))


def _world_imports(path: Path) -> set[str]:
    names = _all_imports(path)
    return ({name.split(".")[0] for name in names} & IMPURE) | (names & IMPURE_INNER)


def test_only_shells_touch_the_world() -> None:
    cores = [path for path in _sources("stages") if not SHELL_FILE.fullmatch(path.name)]
    _assert_none(_world_imports, cores)


def _foreign_imports(path: Path) -> set[str]:
    """What a file of a stage imports from other stages; `compute` may import their tasks."""
    inner = [name.split(".") for name in _all_imports(path) if name.startswith(f"{NAMESPACE}.stages.")]
    foreign = [parts for parts in inner if parts[2] in STAGES - {path.parts[1]}]
    if path.parts[1] == "compute":
        foreign = [parts for parts in foreign if parts[3:4] not in ([], ["tasks"])]
    return {".".join(parts) for parts in foreign}


def test_stages_stay_apart() -> None:
    in_stages = [path for path in _sources("stages") if len(path.parts) > 2 and path.parts[1] in STAGES]
    _assert_none(_foreign_imports, in_stages)


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


def test_only_the_fork_table_compares_forks() -> None:
    outside = [path for path in _sources("ipc", "stages", "node") if path.parts[:3] != FORK_TABLE]
    _assert_none(lambda path: _compared_names(_tree(path)), outside)


def test_packages_are_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    present = {".".join(path.parent.parts) for path in _sources(*PACKAGES) if path.name == "__init__.py"}
    assert sorted(listed) == sorted(f"{NAMESPACE}.{name}" for name in present)
    bare = {path.parent for path in _sources(*PACKAGES)} - {
        path.parent for path in _sources(*PACKAGES) if path.name == "__init__.py"
    }
    assert not bare, "a folder with modules is a package"


def test_files_stay_short() -> None:
    def excess(path: Path) -> list[str]:
        length = len((ROOT / path).read_text().splitlines())
        return [f"{length} lines"] if length > MAX_LINES else []

    _assert_none(excess, _sources(*PACKAGES, "tests"))


def test_tests_mirror_the_source() -> None:
    tests = [path for path in _sources("tests") if path.name.startswith("test_") and len(path.parts) > 2]
    mirrored = {Path(*path.parts[1:-1]) for path in tests if path.parts[1] in PACKAGES}
    assert [folder for folder in sorted(mirrored) if not (ROOT / folder).is_dir()] == []


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
