"""Kills a writer of the interop database at random moments: run as
`python -m tests.support.interop.store_writer FILE KILLS SEED`, prints one line of JSON."""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator

from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.interop.rounds import (
    AddLogs,
    Advance,
    ChainBlock,
    Change,
    Finished,
    InvalidateHeads,
    InvalidHead,
    Rewind,
    next_time,
)
from rollup_node.stages.protocol.interop_messages import BlockLogs
from rollup_node.stages.protocol.types import BlockId, Hash
from tests.support.interop.store_model import StoreModel
from tests.support.interop.values import block, dependency_set, member
from tests.support.processes.killed_writer import Database, kill_writers

CONFIG = dependency_set(member(1), member(2, block_time=2), activation=1000)
KEPT = 30
"""Rounds that a rewind leaves at most, so that the comparison with the model stays quick."""


def _l1(number: int, chance: random.Random) -> BlockId:
    return BlockId(number, chance.randbytes(32))


def _logs(chain_id: int, number: int, parent: Hash, chance: random.Random) -> BlockLogs:
    ref = block(number, CONFIG.chains[chain_id].timestamp_of(number), parent, chance.randrange(2**32))
    return BlockLogs(ref, chance.randbytes(32 * chance.randrange(4)), ())


def _advance(model: StoreModel, chance: random.Random) -> Advance:
    state = model.state()
    timestamp = next_time(CONFIG, state)
    blocks = {}
    for chain_id, number in CONFIG.heights_at(timestamp).items():
        tip = state.tips.get(chain_id)
        if tip is None or tip.number < number:
            parent = bytes(32) if tip is None else tip.hash
            roots = chance.randbytes(32), chance.randbytes(32)
            blocks[chain_id] = ChainBlock(_logs(chain_id, number, parent, chance), *roots, _l1(number, chance))
    last = state.verified.l1 if state.verified is not None else _l1(0, chance)
    l1 = _l1(last.number + 1, chance) if state.verified is None or chance.random() < 0.3 else last
    return Advance(timestamp, l1, blocks)


def _invalidate(model: StoreModel, chance: random.Random) -> InvalidateHeads:
    timestamp = next_time(CONFIG, model.state())
    heads = [
        InvalidHead(chain_id, BlockId(number, chance.randbytes(32)), chance.randbytes(32), chance.randbytes(32), "no")
        for chain_id, number in CONFIG.heights_at(timestamp).items()
    ]
    return InvalidateHeads(timestamp, _l1(10**6, chance), tuple(chance.sample(heads, chance.randint(1, 2))))


def _rewind(model: StoreModel, chance: random.Random) -> Rewind:
    rounds = model.rounds[chance.randrange(min(len(model.rounds), KEPT)) :] if model.rounds else []
    return Rewind(rounds[0][0] if rounds else next_time(CONFIG, model.state()))


def _backfill(chance: random.Random) -> AddLogs:
    blocks: list[BlockLogs] = []
    for number in range(chance.randrange(6)):
        blocks.append(_logs(1, number, blocks[-1].block.hash if blocks else bytes(32), chance))
    return AddLogs(1, tuple(blocks), -1)


def scripted_changes(seed: int) -> Iterator[tuple[Change, ...]]:
    """Yield what is written at once, without end.

    Mostly rounds, often several, some of them with denied blocks, and rewinds of all depths."""
    chance, model = random.Random(seed), StoreModel(CONFIG)
    while True:
        kind = chance.random()
        if model.pending is not None and kind < 0.7:
            change: Change = Finished()
        elif model.pending is not None or kind < 0.06 or len(model.rounds) > 2 * KEPT:
            change = _rewind(model, chance)
        elif kind < 0.2:
            change = _invalidate(model, chance)
        elif not model.rounds and not model.logs[2] and kind < 0.5:
            change = _backfill(chance)
        else:
            rounds = []
            for _ in range(chance.choice((1, 1, 2, 5))):
                rounds.append(_advance(model, chance))
                model.write(rounds[-1])
            yield tuple(rounds)
            continue
        model.write(change)
        yield (change,)


def main(path: str, kills: int, seed: int) -> dict[str, int]:
    """Kill that many writers; return how many writes they reported, and how many of each kind there were.

    Raises AssertionError when the file has not what was reported."""
    model, kinds = StoreModel(CONFIG), Counter[str]()

    def write(changes: tuple[Change, ...]) -> None:
        kinds[type(changes[0]).__name__ + ("s" if len(changes) > 1 else "")] += 1
        model.write(*changes)

    def is_same(store: InteropStore) -> bool:
        if store.state() != model.state():
            return False
        model.assert_same(store)
        return True

    database = Database(
        lambda check: InteropStore(path, CONFIG, check=check),
        lambda store, changes: store.write(*changes),
        InteropStore.close,
        lambda: scripted_changes(seed),
    )
    return kill_writers(database, kills, random.Random(seed), write, is_same) | kinds


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
