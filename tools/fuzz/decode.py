"""`python -m rollup_node.tools.fuzz.decode --count 10000`: generated truncated, bit-flipped, mutated and bomb inputs
for `rollup-node decode`. Each must end with exit code 0 or 1, without a traceback, within the memory allowed, and every
line on standard error must name its file, an offset and a rule. The first input that fails is kept and ends the run."""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollup_node.stages.derivation.reasons.table import REASONS
from rollup_node.tools.fuzz.inputs import Input, Inputs, real_files

PROGRESS_SECONDS = 10.0
MAX_MEMORY_MB = 300
MAX_ADDRESSES_MB = 1000
"""Of address space, so that what runs away ends before the machine does."""

RULE = re.compile(r" \[([A-Z0-9.a-z]+)\]$")
PLACE = re.compile(r"^rollup-node: .+: (channel [0-9a-f]{32}, )?(decompressed )?offset \d+: ")
WITHOUT_RULE = re.compile(r"(: longer than \d+ bytes, which|: not hex text$|: an odd number of hex digits$)")
COUNT = re.compile(r"^rollup-node: \d+ more like this \[")
RULES = {reason.rule for reason in REASONS} | {"BL", *(f"BL{number}" for number in range(1, 10))}


class Failure(Exception):
    """A run did not end as it must."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a summary as JSON; 1 when an input failed."""
    parser = argparse.ArgumentParser(prog="python -m rollup_node.tools.fuzz.decode", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bombs", type=int, default=20, help="of 1,000 inputs")
    parser.add_argument("--largest", type=int, default=99, help="what a bomb may unfold to, in MB")
    parser.add_argument("--programs", type=int, default=100, help="one input of so many runs as a program of its own")
    parser.add_argument("--real", type=Path, help="the folder of shared data, for real inputs as well")
    parser.add_argument("--failures", type=Path, default=Path("."), help="folder for an input that fails")
    given = parser.parse_args(sys.argv[1:] if argv is None else argv)
    inputs = Inputs(given.seed, given.largest * 1_000_000, given.bombs, real_files(given.real) if given.real else {})
    with tempfile.TemporaryDirectory(prefix="rollup-node-fuzz-") as folder, Runner(Path(folder)) as runner:
        tally = Tally(given.count)
        for number in range(given.count):
            tried = inputs.next()
            words = runner.words(tried)
            started = time.monotonic()
            as_program = number % given.programs == given.programs - 1
            ended = runner.program(words) if as_program else runner.run(words)
            try:
                check(ended)
            except Failure as failure:
                _keep(given.failures, f"decode-{given.seed}-{number}", tried, failure, ended)
                return 1
            tally.add(tried, ended, time.monotonic() - started)
    print(json.dumps(tally.summary()))
    return 0


class Runner:
    """Runs the command in one child process, or as a program of its own; files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child = subprocess.Popen(
            [sys.executable, "-m", "rollup_node.tools.fuzz.decode_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_limit,
        )

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()

    def words(self, tried: Input) -> list[str]:
        """Writes the files; the command line."""
        paths = [self._folder / f"input{number}" for number in range(len(tried.files))]
        for path, data in zip(paths, tried.files, strict=True):
            path.write_bytes(data)
        return [*map(str, paths), "--as", tried.kind, *tried.flags]

    def run(self, words: list[str]) -> dict[str, Any]:
        """How a run in the child process ended."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps(words) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            return {"code": -1, "lines": 0, "errors": [], "traceback": "the process ended", "peak_kb": 0}
        found: dict[str, Any] = json.loads(answer)
        return found

    def program(self, words: list[str]) -> dict[str, Any]:
        """How a run as a program of its own ended."""
        out, err, peak = self._folder / "out", self._folder / "err", self._folder / "peak"
        peak.write_text("0")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            command = [sys.executable, "-m", "rollup_node.tools.fuzz.decode_child", "--once", str(peak), *words]
            code = subprocess.run(command, stdout=stdout, stderr=stderr, preexec_fn=_limit, check=False).returncode
        with out.open("rb") as lines:
            count = sum(piece.count(b"\n") for piece in iter(lambda: lines.read(1 << 20), b""))
        errors = err.read_text().splitlines()
        found = err.read_text() if any(line.startswith("Traceback") for line in errors) else ""
        return {"code": code, "lines": count, "errors": errors, "traceback": found, "peak_kb": int(peak.read_text())}


def _limit() -> None:
    size = MAX_ADDRESSES_MB << 20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def check(ended: dict[str, Any]) -> None:
    """Failure if a run did not end as it must."""
    if ended["traceback"]:
        raise Failure("a traceback")
    if ended["peak_kb"] > MAX_MEMORY_MB * 1000:
        raise Failure(f"{ended['peak_kb']} KB of memory")
    if ended["code"] not in (0, 1) or (ended["code"] == 0) != (ended["lines"] > 0):
        raise Failure(f"exit code {ended['code']} with {ended['lines']} lines of output")
    errors = [line for line in ended["errors"] if not line.startswith("rollup-node: warning: ")]
    if ended["code"] and not errors:
        raise Failure("nothing is said")
    for line in errors:
        rule = RULE.search(line)
        if not PLACE.search(line) and not COUNT.search(line):
            raise Failure(f"no place in {line!r}")
        if rule is None and not WITHOUT_RULE.search(line):
            raise Failure(f"no rule in {line!r}")
        if rule is not None and rule[1] not in RULES:
            raise Failure(f"rule {rule[1]} is none")


class Tally:
    """What was tried and how it ended."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._done = wanted, 0
        self._started = self._said = time.monotonic()
        self._damages: Counter[str] = Counter()
        self._decoded: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()
        self._peak_kb, self._slowest = 0, 0.0

    def add(self, tried: Input, ended: dict[str, Any], seconds: float) -> None:
        """Counts a run, and tells from time to time how far it is."""
        self._done += 1
        self._damages[tried.damage] += 1
        self._decoded[tried.damage] += ended["code"] == 0
        self._rules.update({match[1] for line in ended["errors"] if (match := RULE.search(line))})
        self._peak_kb, self._slowest = max(self._peak_kb, ended["peak_kb"]), max(self._slowest, seconds)
        if time.monotonic() - self._said > PROGRESS_SECONDS:
            self._said = time.monotonic()
            print(f"{self._done} of {self._wanted}, peak {self._peak_kb // 1000} MB", file=sys.stderr, flush=True)

    def summary(self) -> dict[str, Any]:
        """The figures."""
        return {
            "inputs": dict(sorted(self._damages.items())),
            "with_batches": dict(sorted(self._decoded.items())),
            "rules": dict(sorted(self._rules.items())),
            "peak_mb": round(self._peak_kb / 1000, 1),
            "slowest_seconds": round(self._slowest, 1),
            "seconds": round(time.monotonic() - self._started),
        }


def _keep(folder: Path, name: str, tried: Input, failure: Failure, ended: dict[str, Any]) -> None:
    paths = [folder / f"{name}-{number}.bin" for number in range(len(tried.files))]
    for path, data in zip(paths, tried.files, strict=True):
        path.write_bytes(data)
    words = " ".join([*map(str, paths), "--as", tried.kind, *tried.flags])
    print(f"{failure}: rollup-node decode {words}", file=sys.stderr)
    print(ended["traceback"] or "\n".join(ended["errors"][:20]), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
