"""What the documents refer to exists: files that they link to or name, and rules that they cite."""

import contextlib
import functools
import io
import re
from pathlib import Path

import pytest

from rollup_node.node import cli
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.setup.secrets import DEFAULT_FILE
from rollup_node.tools.fuzz.targets.table import TARGETS

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED_PATH = re.compile(r"`((?:ipc|stages|node|tools|tests|docs|docker|src)/[\w./-]*)`")
RULE = re.compile(r'<a id="([^"]+)"></a>\*\*([A-Z]{1,3}\d+(?:\.\d+|[a-z])?)\*\*')
CITATION = re.compile(r"\b([A-Z]{2,3}\d+)\b")
RULES = {rule for path in ROOT.glob("docs/rules/*.md") for _, rule in RULE.findall(path.read_text())}
PREFIXES = {re.sub(r"\d.*", "", rule) for rule in RULES}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_sections(document: Path) -> None:
    missing = []
    for link in LINK.findall(document.read_text()):
        if "://" in link:
            continue
        name, _, section = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (section and section not in sections(target)):
            missing.append(link)
    assert missing == []


def sections(document: Path) -> set[str]:
    """Return the anchors of a document, explicit ones and those of its headings."""
    text = document.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_and_folders_exist(document: Path) -> None:
    paths = {path.rstrip(".") for path in NAMED_PATH.findall(document.read_text())}
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []
    names = {name.rpartition("/")[2] for name in re.findall(r"`([\w/-]+\.py)`", document.read_text())}
    assert sorted(names - _module_names()) == []


@functools.cache
def _module_names() -> frozenset[str]:
    return frozenset(
        path.name for top in ("ipc", "stages", "node", "tools", "tests") for path in (ROOT / top).rglob("*.py")
    )


@functools.cache
def _code_names() -> frozenset[str]:
    paths = (path for top in ("ipc", "stages", "node", "tools") for path in (ROOT / top).glob("**/*.py"))
    return frozenset(name for path in paths for name in re.findall(r"\b\w+\b", path.read_text()))


@pytest.mark.parametrize("name", ["architecture", "recipes", "l1-reorg", "engine-syncing"])
def test_named_classes_and_functions_exist(name: str) -> None:
    """Names in camel case or with an underscore, without or with their class."""
    named = re.findall(r"`(?:\w+\.)?(\w+)`", (ROOT / "docs" / f"{name}.md").read_text())
    code = {item for item in named if re.match(r"[A-Z]\w*[a-z]\w*[A-Z]|_?[a-z]+_\w+$", item)}
    assert code and sorted(code - _code_names()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_cited_rules_are_defined(document: Path) -> None:
    cited = {rule for rule in CITATION.findall(document.read_text()) if re.sub(r"\d.*", "", rule) in PREFIXES}
    assert sorted(cited - RULES) == []


def test_ports_and_files_of_operations_are_those_of_the_options() -> None:
    text = (ROOT / "docs" / "operations.md").read_text().partition("## Ports\n")[2]
    shown = dict(re.findall(r"^\| [^|]* \| `([a-z0-9.-]+)` \| *([^|]*?) *\|", text, re.MULTILINE))
    ports = {name for name in OPTIONS if name.endswith((".port", ".listen.tcp", ".listen.udp"))}
    files = {name for name in OPTIONS if name.endswith((".path", ".admin-state"))} - {"pprof.path"}
    assert ports | files | {"l2.jwt-secret", "p2p.sequencer.key"} == set(shown)
    defaults = {name: OPTIONS[name].default or "" for name in shown}
    assert shown == defaults | {"l2.jwt-secret": str(DEFAULT_FILE)}


THREATS = (ROOT / "docs" / "security.md").read_text()
TEST = re.compile(r"`(?:(tests/[\w/]+\.py)|(test_\w+))`")


def test_the_tests_that_the_threat_model_names_exist() -> None:
    """A function is in the file named before it in its line, or else in one that its section names."""
    missing, functions = [], 0
    for section in re.split(r"^## ", THREATS, flags=re.MULTILINE):
        files = {file for file, _ in TEST.findall(section) if file}
        for line in section.splitlines():
            sources = files
            for file, function in TEST.findall(line):
                if file:
                    sources = {file}
                elif not any(f"def {function}(" in _source(source) for source in sources):
                    missing.append(f"{function} in {sources}")
                functions += bool(function)
    assert missing == []
    assert functions > 60


@functools.cache
def _source(path: str) -> str:
    result = ROOT / path
    return result.read_text() if result.exists() else ""


def test_each_row_of_the_threat_model_names_a_test() -> None:
    """The table of memory has its tests in the sections of the processes."""
    rows, untested = 0, []
    for table in re.findall(r"(?:^\|.*\n)+", THREATS, re.MULTILINE):
        head, _, *body = table.splitlines()
        if head.startswith("| Process |"):
            continue
        assert head.endswith("| Test |"), head
        rows += len(body)
        untested += [row for row in body if not TEST.search(row.rsplit(" | ", 1)[-1])]
    assert untested == []
    assert rows > 80


def test_the_fuzz_targets_that_the_threat_model_names_exist() -> None:
    named = re.findall(r"fuzz targets? ((?:`[\w-]+`(?:, | and )?)+)", THREATS)
    result = {name for names in named for name in re.findall(r"`([\w-]+)`", names)}
    assert result and result <= TARGETS.keys()


@functools.cache
def _flags_of(command: str) -> frozenset[str]:
    """Return the flags in the help of a command, or of one of its parts."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert cli.main([*command.split(), "--help"]) == 0, command
    return frozenset(re.findall(r"--([a-z][a-z0-9.-]*)", shown.getvalue()))


_VIRTUAL_NODE = re.compile(r"^--vn\.(all|[0-9]+)\.")
"""What an option of a chain of a supernode begins with."""


def test_commands_in_the_documents_exist_with_their_flags() -> None:
    options = {name for option in OPTIONS.values() for name in option.names} | {"help", "help-all", "version"}
    seen = set()
    for document in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        text = document.read_text().replace("\\\n", " ")
        for line in re.findall(r"^(?:    |\$ )?rollup-node (.*?)(?: #.*)?$", text, re.MULTILINE):
            words = line.split()
            name = "" if words[0].startswith("-") else words[0]
            assert not name or name in cli.COMMANDS, f"{document.name}: {line}"
            if any(word.startswith("--chains") for word in words):
                words = [_VIRTUAL_NODE.sub("--", word) for word in words]
                name = f"{name} --chains=1" if name == "devnet" else name
            part = f"{name} {words[1]}" if name in ("p2p", "history", "config") else name
            known = options | (_flags_of(part) if name else set())
            flags = {
                re.split(r"[=\]|]", word.lstrip("["))[0][2:] for word in words if word.lstrip("[").startswith("--")
            }
            assert flags <= known, f"{document.name}: {line}: {flags - known}"
            seen.add(name)
    assert {"", "batches", "replay", "decode", "explain", "check", "status"} <= seen


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/rules/[!R]*.md")), ids=lambda path: path.stem)
def test_rule_files_begin_with_prose_and_an_example(path: Path) -> None:
    text = path.read_text()
    assert "\nExample" in text.partition("\n## ")[0]
    prose = [line for line in text.splitlines() if not line.startswith("|") and "](http" not in line]
    assert [line for line in prose if len(line) > 120] == []
