"""Change the logic of a stage at random places, one at a time, and count how many of the changes its tests see.

    python -m rollup_node.tools.dev.mutants                             # 30 mutants of each of the five stages
    python -m rollup_node.tools.dev.mutants engine --number 10 --seed 7 --jobs 4

A mutant has one comparison, condition, number, `and`, statement or return value changed. It is killed if a test fails:
of the file at the mirrored path, then of that file's topic, then of the stage. Each works in a copy of the tree, and is
stopped after thrice the time that the tests take on unchanged source, which counts as killed. The same seed gives the
same mutants of the same source.
"""

import argparse
import ast
import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("derivation", "engine", "interop", "p2p", "rpc")
MORE_TESTS = {"derivation": ("tests/conformance",)}
"""Tests of a stage that lie elsewhere."""

OPERATORS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
NOT_LOGIC = ("log.", "self._log", "self.log", "self._meter", "self.meter", "meter.", "super().__init__")
"""What statements begin with that only tell what happens."""


class Mutant(NamedTuple):
    """One change of a file: the place of the old code as offsets in its bytes, and the new code."""

    path: str
    line: int
    begin: int
    end: int
    old: str
    new: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.begin] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old[:60]} -> {new[:60]}"


# --- the changes -----------------------------------------------------------------------------------------------------


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a file: changes in its functions, where they can change what it computes."""
    starts = [0, *itertools.accumulate(len(line) for line in source.splitlines(keepends=True))]
    mutants = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name != "__repr__":
            for node, new in _changes(function.body):
                assert node.end_lineno is not None and node.end_col_offset is not None
                begin = starts[node.lineno - 1] + node.col_offset
                end = starts[node.end_lineno - 1] + node.end_col_offset
                mutants.append(Mutant(path, node.lineno, begin, end, source[begin:end].decode(), new))
    return mutants


def _changes(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes of a function, without those of nested functions, and the code to put in the place of each."""
    ahead: list[ast.AST] = list(body)
    while ahead:
        node = ahead.pop()
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assert | ast.JoinedStr | ast.Raise
        ):
            continue
        if isinstance(node, ast.stmt):
            if ast.unparse(node).removeprefix("await ").startswith(NOT_LOGIC):
                continue
            yield from _changed_statement(node)
        elif isinstance(node, ast.expr):
            yield from ((node, new) for new in _changed_expression(node))
        skipped = node.annotation if isinstance(node, ast.AnnAssign) else None
        ahead += [child for child in ast.iter_child_nodes(node) if child is not skipped]


def _changed_statement(node: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            yield test, f"(not ({ast.unparse(test)}))"
            if isinstance(node, ast.If) and not node.orelse:
                yield test, "False"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield node, "return None"


def _changed_expression(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[first, *others], comparators=comparators):
            yield f"({ast.unparse(ast.Compare(left, [OPERATORS[type(first)](), *others], comparators))})"
        case ast.BoolOp(op=op, values=values):
            yield f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield f"({value} + 1)"
            yield f"({value} - 1)"


def choose(root: Path, stage: str, number: int, seed: int) -> list[Mutant]:
    """Return so many random mutants of a stage."""
    files = sorted((root / "stages" / stage).rglob("*.py"))
    every = [mutant for path in files for mutant in mutants_of(path.relative_to(root).as_posix(), path.read_bytes())]
    return random.Random(f"{seed} {stage}").sample(every, min(number, len(every)))


# --- the tests -------------------------------------------------------------------------------------------------------


def sets_of_tests(root: Path, path: str) -> list[tuple[str, ...]]:
    """Return the tests of a file of a stage, nearest first: those at the mirrored path, of its topic, of its stage."""
    _, stage, *folders, name = Path(path).parts
    stage_tests = Path("tests/stages", stage)
    mirrored = stage_tests.joinpath(*folders, f"test_{name}")
    topic = (stage_tests / folders[0],) if folders else ()
    sets = ((mirrored,), topic, (stage_tests, *MORE_TESTS.get(stage, ())))
    existing = (tuple(str(part) for part in parts if (root / part).exists()) for parts in sets)
    return [tests for tests in existing if tests]


class Tree:
    """A copy of the tree in which one mutant at a time is tested."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            if name and (root / name).exists():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, target, follow_symlinks=False)
        shared = os.environ.get("ROLLUP_NODE_SHARED_DATA", str(root.parent / "shared" / "data"))
        self._environment = os.environ | {"PYTHONPATH": str(folder / "src"), "ROLLUP_NODE_SHARED_DATA": shared}
        self._writes = itertools.count(1_000_000_000)

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Have a file changed while the context lasts."""
        path = self.folder / mutant.path
        source = path.read_bytes()
        self._write(path, mutant.apply(source))
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        """Write with a modification time of its own: Python compares compiled files by size and second."""
        path.write_bytes(source)
        os.utime(path, (number := next(self._writes), number))

    def passes(self, tests: Sequence[str], seconds: float) -> bool:
        """Return whether these tests pass within so many seconds."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "-p", "no:cacheprovider", *tests]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Run:
    """Tests mutants in copies of the tree, several at once."""

    def __init__(self, trees: Sequence[Tree], seconds: float) -> None:
        self._seconds = seconds
        self._number = len(trees)
        self._free: SimpleQueue[Tree] = SimpleQueue()
        for tree in trees:
            self._free.put(tree)
        self._limits: dict[tuple[str, ...], float | None] = {}
        self._lock = threading.Lock()

    def killers(self, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
        """Yield each mutant with the tests that kill it, empty for one that survives."""
        with ThreadPoolExecutor(self._number) as pool:
            yield from zip(mutants, pool.map(self._killer, mutants), strict=True)

    def _killer(self, mutant: Mutant) -> str:
        tree = self._free.get()
        try:
            for tests in sets_of_tests(tree.folder, mutant.path):
                limit = self._limit(tree, tests)
                if limit is None:
                    continue
                with tree.changed(mutant):
                    if not tree.passes(tests, limit):
                        return " ".join(tests)
            return ""
        finally:
            self._free.put(tree)

    def _limit(self, tree: Tree, tests: tuple[str, ...]) -> float | None:
        """Return the seconds for tests.

        None, with a word about it, for tests that fail on unchanged source or take longer."""
        with self._lock:
            if tests not in self._limits:
                started = time.monotonic()
                passed = tree.passes(tests, self._seconds)
                self._limits[tests] = 3 * (time.monotonic() - started) + 10 if passed else None
                if not passed:
                    print(
                        f"not used, as they fail or take too long without a change: {' '.join(tests)}", file=sys.stderr
                    )
            return self._limits[tests]


def main(arguments: Sequence[str] | None = None) -> int:
    """Test mutants of stages and print the killed and the survivors; the exit code is 1 below the share `--bound`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"one of {', '.join(STAGES)} (default: all)")
    parser.add_argument("--number", type=int, default=30, help="mutants of each stage (default: 30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="tested at once")
    parser.add_argument("--seconds", type=float, default=400.0, help="bound for one set of tests on unchanged source")
    parser.add_argument("--bound", type=float, default=90.0, help="percentage of each stage to be killed (default: 90)")
    options = parser.parse_args(arguments)
    good = True
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        run = Run([Tree(Path(folder, str(number))) for number in range(options.jobs)], options.seconds)
        for stage in options.stages or STAGES:
            mutants = choose(ROOT, stage, options.number, options.seed)
            killed = 0
            for mutant, tests in run.killers(mutants):
                killed += bool(tests)
                print(f"killed   {mutant} ({tests})" if tests else f"SURVIVED {mutant}", flush=True)
            share = 100 * killed / max(1, len(mutants))
            good &= share >= options.bound
            print(f"{stage}: {killed} of {len(mutants)} killed, {share:.0f} %", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
