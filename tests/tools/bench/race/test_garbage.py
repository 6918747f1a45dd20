"""What else a batch inbox gets."""

from rollup_node.stages.protocol.transactions import encode_transaction
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch
from rollup_node.tools.bench.race.garbage import STRANGER, Garbage
from rollup_node.tools.bench.race.l1_events import BATCHER

INBOX = b"\xff" * 20
KINDS = 10
BLOCK = BatchBlock(bytes(32), 1000, BlockId(1, bytes(32)), ())


def made(first: int) -> list[bytes]:
    garbage = Garbage(INBOX)
    garbage.spans, garbage.pending = [singular_batch(BLOCK)], BLOCK
    return [encode_transaction(each.transaction) for each in garbage.transactions(first, KINDS, 5)]


def test_each_kind_is_there_once_and_follows_from_the_block_number() -> None:
    assert made(7) == made(7)
    assert len({*made(7), *made(8)}) == 2 * KINDS


def test_one_kind_is_that_of_a_stranger() -> None:
    included = list(Garbage(INBOX).transactions(7, KINDS, 5))
    assert [each.sender for each in included] == [BATCHER.address] * (KINDS - 1) + [STRANGER.address]
    assert [each.transaction.nonce for each in included] == list(range(5, 5 + KINDS))
    assert {each.transaction.to for each in included} == {INBOX}
