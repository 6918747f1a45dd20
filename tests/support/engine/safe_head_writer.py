"""Kills a writer of the safe head database at random moments: run as
`python -m tests.support.engine.safe_head_writer FILE KILLS SEED`, prints one line of JSON.

This process forks each writer, kills it, and compares the file with a model: the file has all writes that the writer
has reported, and at most the one that it was making."""

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator

from rollup_node.stages.engine.calls.safe_head_entries import (
    RecordSafeHead,
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadWrite,
)
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from tests.support.chains.chain_fixture import make_rollup
from tests.support.engine.safe_heads import SafeHeadModel, block, entry, l2_ref

ROLLUP = make_rollup()
MOST_REPORTS = 7
MOST_SECONDS = 0.006
"""A writer is killed at most so long after its start, or after one of its first reports."""


def scripted_writes(seed: int) -> Iterator[SafeHeadWrite]:
    """Write without end: mostly safe heads, some resets to earlier blocks, a few to genesis."""
    chance = random.Random(seed)
    l1 = safe = 10
    while True:
        kind = chance.random()
        if kind < 0.85:
            l1, safe = l1 + chance.randrange(3), safe + chance.randrange(4)
            yield RecordSafeHead(entry(l1, safe, chance.randrange(4)))
        elif kind < 0.99:
            l1, safe = max(10, l1 - chance.randrange(20)), max(10, safe - chance.randrange(30))
            yield ResetSafeHeads(l2_ref(safe, max(0, l1 - 5)), None)
        else:
            l1 = safe = 10
            yield ResetSafeHeads(l2_ref(0, 10), block(0))


def entries_of(store: SafeHeadStore) -> list[SafeHeadEntry]:
    """All entries in ascending order."""
    result, number = [], 2**63
    while number >= 0 and (item := store.at_l1(number)) is not None:
        result.append(item)
        number = item.l1_block.number - 1
    return result[::-1]


def write_until_killed(path: str, seed: int, done: int, pipe: int) -> None:
    """Make the writes after the first `done`, and writes a byte into `pipe` for each that is on disk."""
    store = SafeHeadStore(path, ROLLUP)
    for position, write in enumerate(scripted_writes(seed)):
        if position >= done:
            store.write(write)
            os.write(pipe, b".")


def reported_by_killed_writer(path: str, seed: int, done: int, chance: random.Random) -> int:
    """How many writes a writer has reported when it is killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            write_until_killed(path, seed, done, write)
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


def main(path: str, kills: int, seed: int) -> dict[str, int]:
    """Kills that many writers; how many writes they reported, and how many were on disk without a report.

    Raises AssertionError when the file has not what was reported."""
    chance, model, script = random.Random(seed), SafeHeadModel(), scripted_writes(seed)
    done = reported = unreported = most = 0
    for number in range(kills):
        count = reported_by_killed_writer(path, seed, done, chance)
        for _ in range(count):
            model.write(next(script))
        reported, done = reported + count, done + count
        store = SafeHeadStore(path, ROLLUP, check=number % 50 == 0)
        result = entries_of(store)
        store.close()
        if result != model.entries:
            model.write(next(script))
            unreported, done = unreported + 1, done + 1
        assert result == model.entries, f"after {done} writes and {number + 1} kills"
        most = max(most, len(result))
    return {"kills": kills, "reported": reported, "unreported": unreported, "most_entries": most}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
