"""Kills a writer of the safe head database at random moments: run as
`python -m tests.support.engine.safe_head_writer FILE KILLS SEED`, prints one line of JSON."""

import json
import random
import sys
from collections.abc import Iterator

from rollup_node.stages.engine.calls.safe_head_entries import (
    ResetSafeHeads,
    SafeHeadEntry,
    SafeHeadWrite,
)
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from tests.support.chains.chain_fixture import make_rollup
from tests.support.engine.safe_heads import SafeHeadModel, block, entry, l2_ref
from tests.support.processes.killed_writer import Database, kill_writers

ROLLUP = make_rollup()


def scripted_writes(seed: int) -> Iterator[SafeHeadWrite]:
    """Write without end: mostly safe heads, some resets to earlier blocks, a few to genesis."""
    chance = random.Random(seed)
    l1 = safe = 10
    while True:
        kind = chance.random()
        if kind < 0.85:
            l1, safe = l1 + chance.randrange(3), safe + chance.randrange(4)
            yield entry(l1, safe, chance.randrange(4))
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


def main(path: str, kills: int, seed: int) -> dict[str, int]:
    """Kill that many writers; return how many writes they reported, and how many entries there were at most.

    Raises AssertionError when the file has not what was reported."""
    model, most = SafeHeadModel(), 0

    def is_same(store: SafeHeadStore) -> bool:
        nonlocal most
        result = entries_of(store)
        most = max(most, len(result))
        return result == model.entries

    database = Database(
        lambda check: SafeHeadStore(path, ROLLUP, check=check),
        SafeHeadStore.write,
        SafeHeadStore.close,
        lambda: scripted_writes(seed),
    )
    counts = kill_writers(database, kills, random.Random(seed), model.write, is_same)
    return {**counts, "most_entries": most}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
