"""Kills writers of a database at random moments, and compares the file with what they have reported.

Each writer is forked from this process, which must not be pytest's; a test runs a program that calls `kill_writers`."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

W = TypeVar("W")
S = TypeVar("S")
MOST_REPORTS = 7
MOST_SECONDS = 0.006
"""A writer is killed at most so long after its start, or after one of its first reports."""


class Database(NamedTuple, Generic[S, W]):
    """How a database is opened (`True`: all of it is read for damage), written and closed; `script` has all writes."""

    open: Callable[[bool], S]
    write: Callable[[S, W], object]
    close: Callable[[S], object]
    script: Callable[[], Iterator[W]]


def write_until_killed(database: Database[S, W], done: int, pipe: int) -> None:
    """Make the writes after the first `done`, and write a byte into `pipe` for each that is on disk."""
    store = database.open(False)
    for position, write in enumerate(database.script()):
        if position >= done:
            database.write(store, write)
            os.write(pipe, b".")


def reported_by_killed_writer(database: Database[S, W], done: int, chance: random.Random) -> int:
    """Return how many writes a writer has reported when it is killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            write_until_killed(database, done, write)
        os._exit(1)
    os.close(write)
    reported, wanted = 0, chance.randrange(MOST_REPORTS)
    while reported < wanted and (data := os.read(read, wanted - reported)):
        reported += len(data)
    time.sleep(chance.uniform(0.0, MOST_SECONDS))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise AssertionError("the writer failed before it was killed")
    while data := os.read(read, 1 << 16):
        reported += len(data)
    os.close(read)
    return reported


def kill_writers(
    database: Database[S, W],
    kills: int,
    chance: random.Random,
    model_write: Callable[[W], object],
    is_same: Callable[[S], bool],
) -> dict[str, int]:
    """Kill that many writers; return how many writes they reported, and how many were on disk without a report.

    Raises AssertionError when the file has not what was reported, or more than the one write that was in hand."""
    script = database.script()
    done = reported = unreported = 0
    for number in range(kills):
        count = reported_by_killed_writer(database, done, chance)
        for _ in range(count):
            model_write(next(script))
        reported, done = reported + count, done + count
        store = database.open(number % 50 == 0)
        if not is_same(store):
            model_write(next(script))
            unreported, done = unreported + 1, done + 1
            assert is_same(store), f"after {done} writes and {number + 1} kills"
        database.close(store)
    return {"kills": kills, "reported": reported, "unreported": unreported}
