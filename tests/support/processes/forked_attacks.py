"""The main part of a program that attacks: with words as arguments it runs that one attack, else one after another as
told on stdin, each in a process forked from it, so that what all attacks import is imported once.

A line of words on stdin kills the attack before and begins one; an empty line only kills."""

import os
import signal
import sys
import traceback
from collections.abc import Callable

UNDER_WAY, STOPPED, FAILED = "attack is under way", "attack is stopped", "attack has failed"
"""Printed once the attack has had its whole effect, when it is killed, and when it ends by itself."""


class Effects:
    """What an attack has had of effects, and how many it takes to be under way."""

    def __init__(self) -> None:
        self._wanted, self._count = 0, 0

    def expect(self, effects: int) -> None:
        """The attack is under way after so many effects."""
        self._wanted = effects

    def effect(self) -> None:
        """Count one."""
        self._count += 1
        if self._count == self._wanted:
            print(UNDER_WAY, flush=True)

    @property
    def is_under_way(self) -> bool:
        return self._count >= self._wanted


def run(attack: Callable[..., None]) -> int:
    """Run attacks until the end of stdin; `attack` takes the words and does not return."""
    if sys.argv[1:]:
        attack(*sys.argv[1:])
    child: int | None = None
    while True:
        line = sys.stdin.readline()
        if child is not None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print(STOPPED, flush=True)
            child = None
        if not line:
            return 0
        if words := line.split():
            child = _begin(attack, words)


def _begin(attack: Callable[..., None], words: list[str]) -> int:
    if child := os.fork():
        return child
    try:
        attack(*words)
    except BaseException:
        traceback.print_exc()
    finally:
        print(FAILED, flush=True)
        os._exit(1)
