"""The rules of the folder structure, one test each, checked on the source text; docs/architecture.md explains them."""

import ast
import functools
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import pytest

from rollup_node.stages.protocol.forks.table import TIMED_FORKS
from rollup_node.tools.dev import folder_graph
from tests.support.source_trees import tree_of

ROOT = Path(__file__).parent.parent
NAMESPACE = "rollup_node"
PACKAGES = ("ipc", "stages", "node", "tools")
MAY_IMPORT = {
    "ipc": {"ipc"},
    "stages": {"ipc", "stages"},
    "node": {"ipc", "stages", "node"},
    "tools": set(PACKAGES),
}
SHELL_FOLDERS = {"process", "io"}
WORLD = {"asyncio", "aiohttp", "zmq", "socket", "ssl", "time", "random", "os", "logging", "threading", "subprocess"}
STAGES = {"l1", "blobs", "derivation", "compute", "engine", "interop", "p2p", "rpc"}
FORKS = re.compile(rf"\b({'|'.join(TIMED_FORKS)})\b", re.IGNORECASE)
FORK_TABLE = ("stages", "protocol", "forks")
CONFIG_FIELDS = {"eip1559_denominator_canyon", "keep_karst_upgrade_gas"}
"""Fields of rollup.json that are named after a fork and are no activation."""
MAX_LINES = 500
BEHAVIOUR_TESTS = ROOT / "tests" / "behaviour.txt"
TESTED_BY_FOLDER = tuple(
    Path("tools", folder)
    for folder in (
        *("bench", "commands", "convert"),
        *("devnet", "devnet/chain", "devnet/engine", "devnet/evm", "devnet/faults", "devnet/l1", "devnet/soak"),
        *("dev", "faults", "fuzz", "history", "importers", "inspect", "multichain", "preflight", "recorded"),
        *("status_page", "watch"),
    )
)
"""Tools: at least one file of tests for each of these folders."""
ID = r"[A-Z]{1,3}\d+(?:\.\d+|[a-z])?"
FUNCTION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]", re.MULTILINE)
CITATION = re.compile(rf"\[({ID}(?:(?:, | to |-){ID})*)\]")
RANGE = re.compile(r"\b([A-Z]{2,3})(\d+) to \1(\d+)\b")
RULE = re.compile(rf'<a id="([^"]+)"></a>\*\*({ID})\*\*')


@functools.cache
def _text(path: Path) -> str:
    return (ROOT / path).read_text()


@functools.cache
def _sources(*tops: str) -> list[Path]:
    return sorted(path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.py"))


def _assert_none(rule: Callable[[Path], Collection[str]], paths: Iterable[Path]) -> None:
    """No file has anything that breaks the rule; otherwise all that have are listed."""
    offenders = [f"{path}: {', '.join(sorted(broken))}" for path in paths if (broken := rule(path))]
    assert not offenders, "\n".join(offenders)


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run at import, without function bodies."""
    for node in tree.body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from (child for child in ast.walk(node) if isinstance(child, ast.stmt))


def _all_imports(path: Path) -> frozenset[str]:
    return folder_graph.names_imported_by(_text(path))


def _ours(names: Collection[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith(f"{NAMESPACE}.")}


def _wrong_imports(path: Path) -> set[str]:
    """Return what a file may not import by the order of the packages, or imports by a second name."""
    names = _all_imports(path)
    is_command_line = path == Path("node/cli.py")
    wrong = _ours(names) - MAY_IMPORT[path.parts[0]] - ({"tools"} if is_command_line else set())
    wrong |= {name for name in names if name.split(".")[0] in PACKAGES}
    if is_command_line:
        at_import = ast.Module(list(_top_level(tree_of(ROOT / path))), [])
        wrong |= {"tools"} & _ours(folder_graph.imported_names(at_import))
    return wrong


def test_imports_run_one_way() -> None:
    """The command line imports tools, lazily; a module has one name."""
    _assert_none(_wrong_imports, _sources(*PACKAGES))


def test_the_public_package_has_the_library_and_the_command_line() -> None:
    for name, allowed in (("__init__.py", "rollup_node.tools.api."), ("__main__.py", "rollup_node.node.cli")):
        names = _all_imports(Path("src", NAMESPACE, name))
        assert {item for item in names if item.startswith(NAMESPACE) and not item.startswith(allowed)} <= {
            allowed.rpartition(".")[0]
        }


def test_no_folders_import_each_other_in_a_circle() -> None:
    assert folder_graph.cycles(folder_graph.folder_graph(folder_graph.modules())) == []


def _is_shell(path: Path) -> bool:
    return bool(SHELL_FOLDERS & set(path.parts[1:-1]))


def _reached(module: str, graph: folder_graph.Graph) -> set[str]:
    """All modules that importing `module` imports, itself included."""
    reached, ahead = {module}, [module]
    while ahead:
        ahead.extend(fresh := graph[ahead.pop()] - reached)
        reached |= fresh
    return reached


def test_only_shells_touch_the_world() -> None:
    """Sockets, clocks, files and logs are for folders named process or io; no core imports them, nor what does."""
    known = {name: path.relative_to(ROOT) for name, path in folder_graph.modules().items()}
    graph = folder_graph.module_graph(folder_graph.modules())
    touching = {name for name, path in known.items() if {item.split(".")[0] for item in _all_imports(path)} & WORLD}
    offenders = {}
    for name, path in known.items():
        if path.parts[0] == "stages" and not _is_shell(path):
            reached = _reached(name, graph)
            offenders[name] = sorted(item for item in reached if item in touching or _is_shell(known[item]))
    assert {name: result for name, result in offenders.items() if result} == {}


def _foreign_imports(path: Path) -> set[str]:
    """Return what a file of a stage imports from other stages; `compute` may import their tasks."""
    inner = [name.split(".") for name in _all_imports(path) if name.startswith(f"{NAMESPACE}.stages.")]
    foreign = [parts for parts in inner if parts[2] in STAGES - {path.parts[1]}]
    if path.parts[1] == "compute":
        foreign = [parts for parts in foreign if parts[3:4] not in ([], ["tasks"])]
    return {".".join(parts) for parts in foreign}


def test_stages_stay_apart() -> None:
    in_stages = [path for path in _sources("stages") if len(path.parts) > 2 and path.parts[1] in STAGES]
    _assert_none(_foreign_imports, in_stages)


def _conditions(tree: ast.Module) -> Iterator[ast.AST]:
    """Comparisons, and what `if`, `while`, `match` and boolean operators decide by."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield node
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test
        elif isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.match_case):
            yield node.pattern


def _fork_conditions(path: Path) -> set[str]:
    if not FORKS.search(_text(path).replace("_", " ")):
        return set()
    result = set()
    for part in (part for condition in _conditions(tree_of(ROOT / path)) for part in ast.walk(condition)):
        if isinstance(part, ast.Name):
            result.add(part.id)
        elif isinstance(part, ast.Attribute):
            result.add(part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            result.add(part.value)
    return {name for name in result if FORKS.search(name.replace("_", " "))} - CONFIG_FIELDS


def test_only_the_fork_table_compares_forks() -> None:
    outside = [path for path in _sources("ipc", "stages", "node") if path.parts[:3] != FORK_TABLE]
    _assert_none(_fork_conditions, outside)


def test_folders_with_modules_are_packages() -> None:
    folders = {path.parent for path in _sources(*PACKAGES)}
    packages = {path.parent for path in _sources(*PACKAGES) if path.name == "__init__.py"}
    assert folders == packages


def test_files_stay_short() -> None:
    def excess(path: Path) -> list[str]:
        length = len(_text(path).splitlines())
        return [f"{length} lines"] if length > MAX_LINES else []

    _assert_none(excess, _sources(*PACKAGES, "tests"))


def _has_functions(path: Path) -> bool:
    return FUNCTION.search(_text(path)) is not None


def _has_its_own_tests(path: Path) -> bool:
    return not any(path.is_relative_to(folder) for folder in TESTED_BY_FOLDER)


def test_every_source_file_has_tests() -> None:
    """A file with functions is tested by the file of its name in the folder of its name below `tests`."""
    sources = [path for path in _sources(*PACKAGES) if path.name not in ("__init__.py", "__main__.py")]
    missing = [
        str(path)
        for path in sources
        if _has_its_own_tests(path)
        and _has_functions(path)
        and not (ROOT / "tests" / path.with_name(f"test_{path.name}")).is_file()
    ]
    assert missing == []
    assert [folder for folder in TESTED_BY_FOLDER if not list((ROOT / "tests" / folder).glob("test_*.py"))] == []


def test_test_files_are_named_after_source_files() -> None:
    """Tests of behaviour that several files share are the exceptions; each is listed and exists."""
    listed = {line for line in BEHAVIOUR_TESTS.read_text().splitlines() if line and not line.startswith("#")}
    tests = [
        path
        for path in _sources("tests")
        if path.name.startswith("test_") and path.parts[1] in PACKAGES and _has_its_own_tests(Path(*path.parts[1:]))
    ]
    unnamed = {
        str(path)
        for path in tests
        if not (ROOT / Path(*path.parts[1:]).with_name(path.name.removeprefix("test_"))).is_file()
    }
    assert unnamed == listed


@functools.cache
def _rules() -> frozenset[str]:
    """Return the ids that docs/rules defines."""
    result = [rule for path in sorted((ROOT / "docs" / "rules").glob("*.md")) for rule in _defined(path.name)]
    assert len(result) == len(set(result)), "a rule is defined once"
    return frozenset(result)


def _defined(name: str) -> list[str]:
    """Return the ids that a file of docs/rules defines."""
    result = []
    for anchor, rule in RULE.findall((ROOT / "docs" / "rules" / name).read_text()):
        assert anchor == rule.lower(), f"{name}: the anchor of {rule} is {anchor}"
        result.append(rule)
    return result


def _texts(path: Path) -> Iterator[str]:
    """Yield the strings and comments of a file."""
    for token in tokenize.generate_tokens(io.StringIO(_text(path)).readline):
        if token.type == tokenize.COMMENT or "STRING" in tokenize.tok_name[token.type]:
            yield token.string


def _unknown_rules(path: Path) -> set[str]:
    # The tokens of all files take three seconds: only those of files with what might cite a rule that does not exist.
    if _cited(_text(path)) <= _rules():
        return set()
    return {rule for text in _texts(path) for rule in _cited(text)} - _rules()


def _cited(text: str) -> set[str]:
    return {rule for group in CITATION.findall(text) for rule in re.findall(ID, group)}


def test_cited_rules_are_in_the_documents() -> None:
    _assert_none(_unknown_rules, _sources(*PACKAGES, "tests"))


@pytest.mark.parametrize("name", ["interop-verifier.md", "node-supernode.md"])
def test_each_rule_of_a_supernode_is_cited_by_a_test(name: str) -> None:
    tested = set[str]()
    for path in _sources("tests"):
        text = _text(path)
        tested |= _cited(text)
        for prefix, first, last in RANGE.findall(text):
            tested |= {f"{prefix}{number}" for number in range(int(first), int(last) + 1)}
    assert sorted(set(_defined(name)) - tested) == []


def test_no_unfinished_marks_are_committed() -> None:
    words = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"])
    result = [str(path) for path in _sources(*PACKAGES) if re.search(rf"\b({words})\b", _text(path))]
    assert result == []


def test_no_path_of_a_machine_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    pattern = re.compile(r"/(ro" + r"ot|wo" + r"rk|fa" + r"rm)/[a-z]")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".sh", ""} and path.is_file():
            assert not pattern.search(path.read_text(errors="replace")), name
