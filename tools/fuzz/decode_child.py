"""Runs `rollup-node decode` again and again in one process, and says how each run ended and what memory it took.

A line of JSON comes in for each run, the words of its command line; a line goes out with its exit code, how many lines
it wrote, its lines on standard error, the traceback if there was one, and its peak memory in KB. With `--once FILE
WORDS` it runs once, as a program of its own would, and writes its peak memory to the file. (The memory that the kernel
tells of a child that ended counts that of its parent before the start.)"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from rollup_node.node import cli

KEPT_ERRORS = 400
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Sink:
    """Counts the lines of what is written, and keeps the first of them where told to."""

    def __init__(self, keep: int) -> None:
        self.lines = 0
        self.kept: list[str] = []
        self._keep = keep
        self._rest = ""

    def write(self, text: str) -> int:
        self.lines += text.count("\n")
        if len(self.kept) < self._keep:
            *whole, self._rest = (self._rest + text).split("\n")
            self.kept += whole
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


def run(words: list[str]) -> dict[str, Any]:
    """One run."""
    _CLEAR.write_text("5")
    out, err = Sink(0), Sink(KEPT_ERRORS)
    kept, found = (sys.stdout, sys.stderr), ""
    code = -1
    sys.stdout, sys.stderr = out, err
    try:
        code = cli.main(["decode", *words])
    except BaseException:
        found = traceback.format_exc()
    finally:
        sys.stdout, sys.stderr = kept
    return {"code": code, "lines": out.lines, "errors": err.kept, "traceback": found, "peak_kb": _peak_kb()}


def _peak_kb() -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("the kernel does not tell the peak of memory")


def main(given: TextIO, answers: TextIO) -> None:
    """Answers until there is no more."""
    for line in given:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


def once(report: str, words: list[str]) -> int:
    """One run that writes where the command writes; its exit code."""
    code = cli.main(["decode", *words])
    Path(report).write_text(str(_peak_kb()))
    return code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        sys.exit(once(sys.argv[2], sys.argv[3:]))
    main(sys.stdin, sys.stdout)
