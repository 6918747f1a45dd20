"""A derived block against the source's: every field that differs is told."""

from typing import Any

import msgspec

from rollup_node.node.inspect.replay import MAX_TRANSACTIONS, UNKNOWN_HASH, Judged, judge
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes

FIRST_EPOCH = 100


def _judged(world: Any, attributes: PayloadAttributes, known: ExecutionPayload | None, parent: Any = None) -> Judged:
    derived = AttributesReady(1, 1, parent or world.genesis, attributes, world.l1_ref(FIRST_EPOCH), True)
    return judge(world.rollup, derived, known)


def _names(judged: Judged) -> list[str]:
    return [line.split(":")[0] for line in judged.differences]


def test_an_equal_block_becomes_the_safe_head(world: Any) -> None:
    attributes = world.attributes(world.genesis, FIRST_EPOCH, [world.user])
    payload = world.seal(world.genesis, attributes)
    judged = _judged(world, attributes, payload)
    assert judged.differences == ()
    assert judged.safe_head == world.ref(payload)
    assert judged.safe_config == world.known[payload.block_hash].config
    assert judged.values["hash"] == "0x" + payload.block_hash.hex()
    assert "differences" not in judged.values


def test_a_block_that_the_source_lacks(world: Any) -> None:
    judged = _judged(world, world.attributes(world.genesis, FIRST_EPOCH), None)
    assert (judged.differences, judged.safe_head.hash, judged.values["hash"]) == ((), UNKNOWN_HASH, None)


def test_every_field_that_differs_is_told(world: Any) -> None:
    attributes = world.attributes(world.genesis, FIRST_EPOCH)
    payload = msgspec.structs.replace(
        world.seal(world.genesis, attributes),
        parent_hash=b"\1" * 32,
        timestamp=attributes.timestamp + 1,
        prev_randao=b"\2" * 32,
        gas_limit=5,
        parent_beacon_root=b"\3" * 32,
        fee_recipient=b"\4" * 20,
        extra_data=b"",
    )
    judged = _judged(world, attributes, payload)
    assert _names(judged) == [
        *("parent_hash", "timestamp", "prev_randao", "gas_limit", "parent_beacon_root", "fee_recipient", "extra_data")
    ]
    assert judged.safe_head.hash == UNKNOWN_HASH
    assert judged.values["differences"] == judged.differences


def test_transactions_that_differ_are_told_one_by_one(world: Any) -> None:
    attributes = world.attributes(world.genesis, FIRST_EPOCH, [world.user, b"\x02b", b"\x02c"])
    payload = world.seal(world.genesis, attributes)
    info, user, _, last = payload.transactions
    same_size = msgspec.structs.replace(payload, transactions=(info, b"\x02x", b"\x02b", last))
    assert _names(_judged(world, attributes, same_size)) == ["transaction", "transaction 1"]
    shorter = msgspec.structs.replace(payload, transactions=(info, user))
    judged = _judged(world, attributes, shorter)
    assert _names(judged) == ["transaction_count", "transaction 2", "transaction 3"]
    assert judged.differences[1].endswith("(2 bytes), in the source none")


def test_the_l1_info_is_compared_field_by_field(world: Any) -> None:
    parent = world.chain(5)[-1]
    attributes, other = world.attributes(parent, FIRST_EPOCH), world.attributes(parent, FIRST_EPOCH + 1)
    payload = world.seal(parent, attributes)
    judged = _judged(world, attributes, msgspec.structs.replace(payload, transactions=other.transactions), parent)
    fields = [f"l1_info.{name}" for name in ("number", "timestamp", "block_hash", "sequence_number")]
    assert _names(judged) == ["transaction", *fields, "transaction 0"]
    assert judged.differences[1] == "l1_info.number: derived 100, in the source 101"
    judged = _judged(world, attributes, msgspec.structs.replace(payload, transactions=(b"\x7e",)), parent)
    assert judged.differences[1].startswith("l1_info: the source's first transaction is none: ")


def test_very_many_transactions_that_differ_are_counted(world: Any) -> None:
    attributes = world.attributes(world.genesis, FIRST_EPOCH, [b"\x02x"] * 50)
    payload = world.seal(world.genesis, attributes)
    known = msgspec.structs.replace(payload, transactions=payload.transactions[:1] + (b"\x02y",) * 50)
    lines = _judged(world, attributes, known).differences
    assert len(lines) == 1 + MAX_TRANSACTIONS + 1
    assert lines[-1] == f"{50 - MAX_TRANSACTIONS} more transactions differ"


def test_behind_an_unknown_block_the_parent_is_not_compared(world: Any) -> None:
    parent = msgspec.structs.replace(world.genesis, hash=UNKNOWN_HASH)
    attributes = world.attributes(world.genesis, FIRST_EPOCH)
    payload = world.seal(world.genesis, attributes)
    judged = _judged(world, attributes, payload, parent)
    assert judged.differences == ()
    assert judged.safe_head.hash == payload.block_hash
