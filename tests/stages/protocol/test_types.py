"""Block references: their text, and how they are built from headers."""

from rollup_node.stages.protocol import types
from rollup_node.stages.protocol.types import (
    ZERO_HASH,
    BlobRef,
    ChallengeLog,
    InboxTransaction,
    L1Block,
    L1Header,
    Log,
)

HASH, PARENT = b"\xab\xcd" + bytes(30), b"\x01" * 32
HEADER = L1Header(HASH, 7, PARENT, 84, ZERO_HASH, 7, None, None)


def test_all_that_a_block_holds_counts_as_its_memory() -> None:
    empty, log = L1Block(HEADER, (), (), ()), Log(bytes(20), (), bytes(700), 0)
    sent = InboxTransaction(3, bytes(20), bytes(500), (BlobRef(0, HASH), BlobRef(1, HASH)))
    full = L1Block(HEADER, (sent,), (log,), (log, log), (ChallengeLog(log, bytes(50)), ChallengeLog(log, None)))
    assert full.memory - empty.memory == (400 + 500 + 2 * 150) + 3 * (600 + 700) + 2 * (800 + 700) + 50


def test_addresses_that_no_known_answer_has() -> None:
    assert bytes.fromhex("420000000000000000000000000000000000000F") == types.GAS_PRICE_ORACLE
    assert bytes.fromhex("420000000000000000000000000000000000001b") == types.OPERATOR_FEE_VAULT
