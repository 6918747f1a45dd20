"""L1 blocks of a course pass the checks of the node."""

from typing import Any

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import NeedsReceipts, Verified, VerifyBlock, VerifyReceipts, run
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.tools.bench.race.l1_blocks import (
    ACCOUNTS,
    EmittedLog,
    Included,
    MadeL1Block,
    make_l1_block,
    next_time,
)
from rollup_node.tools.bench.race.l1_events import BATCHER, batcher_transactions
from rollup_node.tools.devnet.l1.sidecars import Blob

PORTAL, SYSTEM_CONFIG, INBOX = b"\x11" * 20, b"\x22" * 20, b"\xff" * 20
FILTER = L1Filter(1, INBOX, PORTAL, SYSTEM_CONFIG)


def block(special: list[Included], number: int = 7) -> MadeL1Block:
    return make_l1_block(None, number, 1_770_000_000, b"\x05" * 32, 40, special)


def verified(made: MadeL1Block) -> Any:
    result: Any = run(VerifyBlock(made.header.number, b'{"result":' + made.full + b"}", False, FILTER))
    if isinstance(result, NeedsReceipts):
        result = run(VerifyReceipts(result.block, b'{"result":' + made.receipts + b"}", FILTER))
    assert isinstance(result, Verified), result
    return result.block


def test_a_block_agrees_with_its_own_roots_and_hash() -> None:
    made = block([])
    found = verified(made)
    assert found.header == made.header
    assert (found.inbox, found.deposits) == ((), ())
    assert len(made.logs) == 96  # 2.5 a transaction in whole turns, less in the last one
    assert made.hashes.count(b"0x02f8") == 0 < made.full.count(b"accessList")


def test_special_transactions_are_found_among_the_others() -> None:
    log = EmittedLog(PORTAL, (DEPOSIT_TOPIC, bytes(32), bytes(32), bytes(32)), bytes(64))
    (carrier,) = batcher_transactions(INBOX, 0, [Blob(b"", b"\x01" * 48, b"")])
    made = block([Included(carrier.transaction, carrier.sender, (log,)), carrier])
    found = verified(made)
    assert [each.sender for each in found.inbox] == [BATCHER.address] * 2
    assert found.deposits == tuple(each for each in made.logs if each.address == PORTAL)
    assert found.deposits[0].index > 0


def test_the_same_arguments_give_the_same_block() -> None:
    assert block([]) == block([])
    assert block([]).header.hash != block([], 8).header.hash
    after = make_l1_block(block([]).header, 8, next_time(block([]).header), bytes(32), 0, [])
    assert after.header.parent_hash == block([]).header.hash
    assert after.header.timestamp == 1_770_000_012


def test_most_blooms_prove_that_there_are_no_deposits() -> None:
    """As on L1: receipts are then not needed."""
    needed = 0
    for number in range(20):
        made = make_l1_block(None, number, 0, bytes(32), 150, [])
        task = VerifyBlock(number, b'{"result":' + made.full + b"}", False, FILTER)
        needed += isinstance(run(task), NeedsReceipts)
    assert needed <= 4
    assert len({log.topics[1] for log in made.logs}) < len(ACCOUNTS)
