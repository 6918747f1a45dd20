"""Commands of `rollup-node` that run in the test's process."""

import json
from typing import Any

import pytest

from rollup_node.node import cli
from tests.support.processes.programs import FinishedProgram


class Cli:
    """Runs commands; what they write is captured."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> FinishedProgram:
        self._capsys.readouterr()
        code = cli.main([str(word) for word in words])
        return FinishedProgram(code, *self._capsys.readouterr())

    def out(self, *words: object) -> str:
        """Return what a command writes to standard output that ends with exit code 0."""
        ended = self(*words)
        assert ended.code == 0, ended
        return ended.out

    def json(self, *words: object) -> Any:
        """Return the JSON that such a command writes."""
        return json.loads(self.out(*words))

    def refused(self, *words: object) -> str:
        """Return the single line of a command that ends with exit code 1 and has no results."""
        ended = self(*words)
        assert ended.out == "", ended
        return ended.error_line()
