"""Runs `rollup-node decode` repeatedly in one process and reports how each run ended and its peak memory.

Each line on standard input is a JSON list of arguments; each line of output is a JSON object with exit code, number of
output lines, lines on standard error, traceback and peak memory in KB."""

import json
import sys
import traceback
from pathlib import Path
from typing import TextIO

import msgspec

from rollup_node.node import cli

KEPT_ERRORS = 400
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class DecodeRun(msgspec.Struct, frozen=True):
    """How a run ended: exit code, number of output lines, lines on standard error, traceback, peak memory in KB."""

    code: int
    lines: int
    errors: list[str]
    traceback: str
    peak_kb: int


class LineSink:
    """A text stream that counts lines and keeps the first `keep` of them."""

    def __init__(self, keep: int) -> None:
        self.lines = 0
        self.kept: list[str] = []
        self._keep = keep
        self._rest = ""

    def write(self, text: str) -> int:
        """Count the line ends of the text; its length."""
        self.lines += text.count("\n")
        if len(self.kept) < self._keep:
            *whole, self._rest = (self._rest + text).split("\n")
            self.kept += whole
        return len(text)

    def flush(self) -> None:
        """There is no buffer."""


def run(arguments: list[str]) -> DecodeRun:
    """Run the command once."""
    _CLEAR.write_text("5")  # resets VmHWM, the peak resident set size
    out, err = LineSink(0), LineSink(KEPT_ERRORS)
    streams, error = (sys.stdout, sys.stderr), ""
    code = -1
    sys.stdout, sys.stderr = out, err
    try:
        code = cli.main(["decode", *arguments])
    except BaseException:
        error = traceback.format_exc()
    finally:
        sys.stdout, sys.stderr = streams
    return DecodeRun(code, out.lines, err.kept, error, _peak_kb())


def _peak_kb() -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM")


def main(requests: TextIO, results: TextIO) -> None:
    """Run the command for each line until the end of the input."""
    for line in requests:
        results.write(msgspec.json.encode(run(json.loads(line))).decode() + "\n")
        results.flush()


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
