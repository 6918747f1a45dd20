"""The comparison of a derived block with the source's: every field that differs is reported."""

import msgspec

from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import UNKNOWN_HASH, L2BlockRef
from rollup_node.tools.inspect.replay import MAX_TRANSACTIONS, BlockComparison, compare_block
from tests.support.chains.chain_fixture import ChainFixture

FIRST_EPOCH = 100


def _compare(
    chain: ChainFixture, attributes: PayloadAttributes, known: ExecutionPayload | None, parent: L2BlockRef | None = None
) -> BlockComparison:
    derived = AttributesReady(1, 1, parent or chain.genesis, attributes, chain.l1_ref(FIRST_EPOCH), True)
    return compare_block(chain.rollup, derived, known)


def _names(comparison: BlockComparison) -> list[str]:
    return [line.split(":")[0] for line in comparison.differences]


def test_every_field_that_differs_is_reported(chain: ChainFixture) -> None:
    attributes = chain.attributes(chain.genesis, FIRST_EPOCH)
    changes = {"parent_hash": b"\1" * 32, "timestamp": attributes.timestamp + 1, "prev_randao": b"\2" * 32}
    changes |= {"gas_limit": 5, "parent_beacon_root": b"\3" * 32, "fee_recipient": b"\4" * 20, "extra_data": b""}
    comparison = _compare(chain, attributes, msgspec.structs.replace(chain.seal(chain.genesis, attributes), **changes))
    assert _names(comparison) == list(changes)
    assert comparison.safe_head.hash == UNKNOWN_HASH
    assert comparison.values["differences"] == comparison.differences


def test_transactions_that_differ_are_reported_one_by_one(chain: ChainFixture) -> None:
    attributes = chain.attributes(chain.genesis, FIRST_EPOCH, [chain.user, b"\x02b", b"\x02c"])
    payload = chain.seal(chain.genesis, attributes)
    info, user, _, last = payload.transactions
    same_size = msgspec.structs.replace(payload, transactions=(info, b"\x02x", b"\x02b", last))
    assert _names(_compare(chain, attributes, same_size)) == ["transaction", "transaction 1"]
    shorter = msgspec.structs.replace(payload, transactions=(info, user))
    comparison = _compare(chain, attributes, shorter)
    assert _names(comparison) == ["transaction_count", "transaction 2", "transaction 3"]
    assert comparison.differences[1].endswith("(2 bytes), in the source none")


def test_the_l1_info_is_compared_field_by_field(chain: ChainFixture) -> None:
    parent = chain.build(5)[-1]
    attributes, other = chain.attributes(parent, FIRST_EPOCH), chain.attributes(parent, FIRST_EPOCH + 1)
    payload = chain.seal(parent, attributes)
    comparison = _compare(chain, attributes, msgspec.structs.replace(payload, transactions=other.transactions), parent)
    fields = [f"l1_info.{name}" for name in ("number", "timestamp", "block_hash", "sequence_number")]
    assert _names(comparison) == ["transaction", *fields, "transaction 0"]
    assert comparison.differences[1] == "l1_info.number: derived 100, in the source 101"
    comparison = _compare(chain, attributes, msgspec.structs.replace(payload, transactions=(b"\x7e",)), parent)
    assert comparison.differences[1].startswith("l1_info: the source's first transaction is not an L1 info deposit: ")


def test_very_many_transactions_that_differ_are_counted(chain: ChainFixture) -> None:
    attributes = chain.attributes(chain.genesis, FIRST_EPOCH, [b"\x02x"] * 50)
    payload = chain.seal(chain.genesis, attributes)
    known = msgspec.structs.replace(payload, transactions=payload.transactions[:1] + (b"\x02y",) * 50)
    lines = _compare(chain, attributes, known).differences
    assert len(lines) == 1 + MAX_TRANSACTIONS + 1
    assert lines[-1] == f"{50 - MAX_TRANSACTIONS} more transactions differ"


def test_behind_an_unknown_block_the_parent_is_not_compared(chain: ChainFixture) -> None:
    parent = msgspec.structs.replace(chain.genesis, hash=UNKNOWN_HASH)
    attributes = chain.attributes(chain.genesis, FIRST_EPOCH)
    payload = chain.seal(chain.genesis, attributes)
    comparison = _compare(chain, attributes, payload, parent)
    assert comparison.differences == ()
    assert comparison.safe_head.hash == payload.block_hash
