"""A program of attackers (see forked_attacks.py) as a test sees it."""

import subprocess
from types import MappingProxyType

from tests.support.processes.forked_attacks import FAILED, STOPPED, UNDER_WAY
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program


class Attackers(Program):
    """Attacks as told, one attack at a time."""

    options = MappingProxyType({"stdin": subprocess.PIPE})

    def __init__(self, leftovers: Leftovers, module: str) -> None:
        super().__init__(leftovers, module)
        self._seen = 0

    def begin(self, *words: str) -> None:
        """Begins an attack."""
        self._seen = len(self.out)
        self._send(" ".join(words))

    def end(self) -> None:
        """Kills it; `has_stopped` once that is done."""
        self._send("")

    @property
    def is_under_way(self) -> bool:
        """Whether the attack has had its whole effect. Fails when it has ended."""
        said = self.out[self._seen :]
        assert self.running and FAILED not in said, self.err
        return UNDER_WAY in said

    @property
    def has_stopped(self) -> bool:
        """Whether the attack is killed. Fails when the program has ended."""
        assert self.running, self.err
        return STOPPED in self.out[self._seen :]

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def finish(self) -> None:
        """End the program with its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.wait_for_exit().code == 0
