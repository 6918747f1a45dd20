"""The bounds of the repository's size and words, with what they are now.

    python -m rollup_node.tools.dev.bounds

It fails when one does not hold, and names the first places that break it.
"""

import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rollup_node.tools.dev.folder_graph import ROOT, parsed

NODE = ("node", "stages", "ipc")
PRODUCT = (*NODE, "tools")
PACKAGE = "src/rollup_node"
"""What lies above the top-level folders, to which the others there are links."""
CODE = (*PRODUCT, "tests")
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
BANNED_NAMES = frozenset({"found", "each", "given"})
"""They say that a thing is there, and not what it is."""
SHOWN = 8
"""Places that are named of a bound that does not hold."""


class Bound(NamedTuple):
    """A bound: what is counted, the most there may be, what there is, and the places that are too many."""

    text: str
    most: int
    now: int
    places: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        """Whether there is no more than there may be."""
        return self.now <= self.most


def main() -> int:
    """Print the table; the exit code is 1 if a bound does not hold."""
    table = bounds(ROOT)
    width = max(len(bound.text) for bound in table)
    print(f"{'':{width}}  {'bound':>7}  {'now':>7}")
    for bound in table:
        print(f"{bound.text:{width}}  {bound.most:>7}  {bound.now:>7}  {'ok' if bound.holds else 'NOT MET'}")
    for bound in table:
        if bound.places and not bound.holds:
            rest = len(bound.places) - SHOWN
            print(f"\n{bound.text}:", *bound.places[:SHOWN], *([f"and {rest} more"] if rest > 0 else ()), sep="\n  ")
    return 0 if all(bound.holds for bound in table) else 1


def bounds(root: Path) -> list[Bound]:
    """Return all bounds of a checkout."""
    files = [root / path for path in tracked(root, CODE) if path.suffix == ".py"]
    node = [path for path in files if path.relative_to(root).parts[0] in NODE]
    tests = [path for path in files if path.relative_to(root).parts[0] == "tests"]
    counted = [
        Bound("lines of node, stages and ipc", 60_000, sum(map(_lines, node))),
        Bound("files in the wheel", 650, len(wheel_files(root))),
        Bound("lines of tests", 96_000, sum(map(_lines, tests))),
    ]

    def none(text: str, places: Iterable[str]) -> Bound:
        listed = list(places)
        return Bound(text, 0, len(listed), listed)

    def of(paths: Sequence[Path], rule: Callable[[ast.Module], Iterator[str]]) -> Iterator[str]:
        return (_named(root, path) + place for path in paths for place in rule(_tree(path)))

    return [
        *counted,
        none("classes of one name in several modules", _shared_classes(root, node)),
        none(
            f"files over {MAX_FILE_LINES} lines",
            (str(p.relative_to(root)) for p in files if _lines(p) > MAX_FILE_LINES),
        ),
        none(f"functions over {MAX_FUNCTION_LINES} lines", of(files, long_functions)),
        none(f"variables named {', '.join(sorted(BANNED_NAMES))}", of(files, banned_names)),
    ]


def tracked(root: Path, tops: Sequence[str]) -> list[Path]:
    """Return the files of top-level folders that git has or does not ignore, relative to the checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *tops]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted({Path(name) for name in listed.split("\0") if name and (root / name).is_file()})


def wheel_files(root: Path) -> list[str]:
    """Return the files that a wheel of this checkout holds, as setuptools finds them by pyproject.toml."""
    setuptools = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    excluded, patterns = setuptools["packages"]["find"]["exclude"], ["*.py", *setuptools["package-data"]["*"]]

    def is_packaged(path: Path) -> bool:
        package = ".".join(("rollup_node", *path.parts[:-1]))
        if any(fnmatchcase(package, pattern) for pattern in excluded):
            return False
        return any(fnmatchcase(path.name, pattern) for pattern in patterns)

    package = [path.relative_to(PACKAGE) for path in tracked(root, (PACKAGE,))]
    return [path.as_posix() for path in (*package, *tracked(root, PRODUCT)) if is_packaged(path)]


def long_functions(tree: ast.Module) -> Iterator[str]:
    """Yield the place of each function that is too long."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f":{node.lineno} {node.name}: {length} lines"


def banned_names(tree: ast.Module) -> Iterator[str]:
    """Yield the place of each variable or parameter, and not of each use, that has a banned name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in BANNED_NAMES:
            yield f":{node.lineno} {node.id}"
        elif isinstance(node, ast.arg) and node.arg in BANNED_NAMES:
            yield f":{node.lineno} {node.arg}"


def _named(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _shared_classes(root: Path, paths: Sequence[Path]) -> Iterator[str]:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for name in public_classes(_tree(path)):
            homes[name].append(_named(root, path))
    return (f"{name}: {', '.join(places)}" for name, places in sorted(homes.items()) if len(places) > 1)


def public_classes(tree: ast.Module) -> list[str]:
    """Return the names of the classes that a module defines at its top, without those that begin with an underscore."""
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


@cache
def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@cache
def _tree(path: Path) -> ast.Module:
    return parsed(path.read_text())


if __name__ == "__main__":
    sys.exit(main())
