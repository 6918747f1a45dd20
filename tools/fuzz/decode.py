"""Fuzzes `rollup-node decode` with truncated, bit-flipped and mutated inputs and decompression bombs.

    python -m rollup_node.tools.fuzz.decode --count 10000

Each run must exit with 0 or 1, without a traceback and within the memory limit, and each line on standard error must
name file, offset and rule. The first failing input is written to files and ends the run."""

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

import msgspec

from rollup_node.tools.fuzz.decode_child import DecodeRun
from rollup_node.tools.fuzz.inputs import Input, Inputs, real_files
from rollup_node.tools.importers.drop_reasons import REASONS

PROGRESS_SECONDS = 10.0
MAX_MEMORY_MB = 300
MAX_ADDRESS_SPACE_MB = 1000
"""Stops a run that allocates without bound before the machine is out of memory."""

RULE = re.compile(r" \[([A-Z0-9.a-z]+)\]$")
LOCATION = re.compile(r"^rollup-node: .+: (channel [0-9a-f]{32}, )?(decompressed )?offset \d+: ")
WITHOUT_RULE = re.compile(r"(: longer than \d+ bytes, which|: not hex text$|: an odd number of hex digits$)")
COUNT = re.compile(r"^rollup-node: \d+ more like this \[")
RULES = {reason.rule for reason in REASONS} | {"BL", *(f"BL{number}" for number in range(1, 10))}


class CheckFailed(Exception):
    """A run broke a requirement; the text says which."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print a summary as JSON; 1 when an input fails."""
    parser = argparse.ArgumentParser(prog="python -m rollup_node.tools.fuzz.decode", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bombs", type=int, default=20, help="bombs in 1,000 inputs")
    parser.add_argument("--largest", type=int, default=99, help="largest decompressed size of a bomb in MB")
    parser.add_argument("--real", type=Path, help="folder of recorded data, to mutate real inputs as well")
    parser.add_argument("--failures", type=Path, default=Path("."), help="folder for a failing input")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    inputs = Inputs(args.seed, args.largest * 1_000_000, args.bombs, real_files(args.real) if args.real else {})
    with tempfile.TemporaryDirectory(prefix="rollup-node-fuzz-") as folder, Runner(Path(folder)) as runner:
        tally = Tally(args.count)
        for number in range(args.count):
            current = inputs.next()
            arguments = runner.write_files(current)
            started = time.monotonic()
            result = runner.run(arguments)
            try:
                check(result)
            except CheckFailed as failure:
                _write_failure(args.failures, f"decode-{args.seed}-{number}", current, failure, result)
                return 1
            tally.add(current, result, time.monotonic() - started)
    print(json.dumps(tally.summary()))
    return 0


class Runner:
    """Runs the command in one long-lived child process; the files are in `folder`."""

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

    def write_files(self, current: Input) -> list[str]:
        """Write the input's files; the arguments of the command."""
        paths = [self._folder / f"input{number}" for number in range(len(current.files))]
        for path, data in zip(paths, current.files, strict=True):
            path.write_bytes(data)
        return [*map(str, paths), "--as", current.kind, *current.flags]

    def run(self, arguments: list[str]) -> DecodeRun:
        """Run the command in the child process."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps(arguments) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            return DecodeRun(code=-1, lines=0, errors=[], traceback="the child process exited", peak_kb=0)
        return msgspec.json.decode(line, type=DecodeRun)


def _limit() -> None:
    size = MAX_ADDRESS_SPACE_MB << 20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def check(result: DecodeRun) -> None:
    """Raise CheckFailed where a run broke a requirement."""
    if result.traceback:
        raise CheckFailed("traceback")
    if result.peak_kb > MAX_MEMORY_MB * 1000:
        raise CheckFailed(f"{result.peak_kb} KB of memory")
    if result.code not in (0, 1) or (result.code == 0) != (result.lines > 0):
        raise CheckFailed(f"exit code {result.code} with {result.lines} lines of output")
    errors = [line for line in result.errors if not line.startswith("rollup-node: warning: ")]
    if result.code and not errors:
        raise CheckFailed("exit code 1 without an error message")
    for line in errors:
        rule = RULE.search(line)
        if not LOCATION.search(line) and not COUNT.search(line):
            raise CheckFailed(f"no location in {line!r}")
        if rule is None and not WITHOUT_RULE.search(line):
            raise CheckFailed(f"no rule in {line!r}")
        if rule is not None and rule[1] not in RULES:
            raise CheckFailed(f"unknown rule {rule[1]}")


class Tally:
    """Counts inputs and results."""

    def __init__(self, wanted: int) -> None:
        self._wanted, self._done = wanted, 0
        self._started = self._reported = time.monotonic()
        self._damages: Counter[str] = Counter()
        self._decoded: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()
        self._peak_kb, self._slowest = 0, 0.0

    def add(self, current: Input, result: DecodeRun, seconds: float) -> None:
        """Count a run, and print the progress from time to time."""
        self._done += 1
        self._damages[current.damage] += 1
        self._decoded[current.damage] += result.code == 0
        self._rules.update({match[1] for line in result.errors if (match := RULE.search(line))})
        self._peak_kb, self._slowest = max(self._peak_kb, result.peak_kb), max(self._slowest, seconds)
        if time.monotonic() - self._reported > PROGRESS_SECONDS:
            self._reported = time.monotonic()
            print(f"{self._done} of {self._wanted}, peak {self._peak_kb // 1000} MB", file=sys.stderr, flush=True)

    def summary(self) -> dict[str, Any]:
        """Return the counts by damage and rule, peak memory, slowest run and total time."""
        return {
            "inputs": dict(sorted(self._damages.items())),
            "with_batches": dict(sorted(self._decoded.items())),
            "rules": dict(sorted(self._rules.items())),
            "peak_mb": round(self._peak_kb / 1000, 1),
            "slowest_seconds": round(self._slowest, 1),
            "seconds": round(time.monotonic() - self._started),
        }


def _write_failure(folder: Path, name: str, current: Input, failure: CheckFailed, result: DecodeRun) -> None:
    paths = [folder / f"{name}-{number}.bin" for number in range(len(current.files))]
    for path, data in zip(paths, current.files, strict=True):
        path.write_bytes(data)
    arguments = " ".join([*map(str, paths), "--as", current.kind, *current.flags])
    print(f"{failure}: rollup-node decode {arguments}", file=sys.stderr)
    print(result.traceback or "\n".join(result.errors[:20]), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
