"""Quarantine: blocks wait until a trusted block names them as its parent."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.reqresp.quarantine import MAX_BLOCKS, MAX_BYTES, MAX_TRUSTED, Quarantine, QuarantineRelease
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.p2p.blocks import block, chain

BLOCKS = chain(30)


def trust_block(quarantine: Quarantine, number: int) -> QuarantineRelease:
    """Trusts the chain's block of that number."""
    payload = BLOCKS[number - 1]
    return quarantine.trust_range_end(number, payload.block_hash, payload.parent_hash)


@pytest.fixture
def quarantine() -> Quarantine:
    return Quarantine()


@settings(max_examples=30)
@given(st.permutations(range(12)), st.integers(0, 12))
def test_all_blocks_are_released_once_in_any_order(order: list[int], trusted_after: int) -> None:
    quarantine = Quarantine()
    released: list[ExecutionPayload] = []
    for step, number in enumerate([*order, None]):
        if step == trusted_after:
            released += trust_block(quarantine, 12).blocks
        if number is not None:
            result = quarantine.add(BLOCKS[number], b"p")
            assert not result.rejected
            released += result.blocks
    assert sorted(item.block_number for item in released) == list(range(1, 13))
    assert len(quarantine) == quarantine.bytes == 0


def test_untrusted_blocks_stay_in_quarantine(quarantine: Quarantine) -> None:
    assert quarantine.add(BLOCKS[3], b"p") == QuarantineRelease()
    assert quarantine.has(4) and not quarantine.has(5)
    assert trust_block(quarantine, 6) == QuarantineRelease()
    assert trust_block(quarantine, 5).blocks == (BLOCKS[3],)


def test_a_block_that_contradicts_a_released_one_is_rejected(quarantine: Quarantine) -> None:
    quarantine.add(block(4, 4, state_root=bytes(32)), b"forger")
    trust_block(quarantine, 6)
    assert quarantine.add(BLOCKS[4], b"p") == QuarantineRelease((BLOCKS[4],), (b"forger",))
    assert not quarantine.has(4)


def test_an_unexpected_block_is_rejected_at_once(quarantine: Quarantine) -> None:
    other = block(4, 5, state_root=bytes(32))
    quarantine.add(other, b"early")
    assert trust_block(quarantine, 6) == QuarantineRelease((), (b"early",))
    assert quarantine.add(other, b"late") == QuarantineRelease((), (b"late",)) and not quarantine.has(5)
    quarantine.trust_range_end(6, bytes(32), other.block_hash)
    assert quarantine.add(other, b"p").blocks == (other,), "another branch is trusted"


def test_a_block_with_a_wrong_hash_is_rejected(quarantine: Quarantine) -> None:
    forged = msgspec.structs.replace(BLOCKS[4], state_root=bytes(32))
    assert quarantine.add(forged, b"forger") == QuarantineRelease()
    assert quarantine.add(BLOCKS[4], b"p") == QuarantineRelease(), "the first with a hash is kept"
    assert trust_block(quarantine, 6) == QuarantineRelease((), (b"forger",))
    assert quarantine.add(BLOCKS[4], b"p").blocks == (BLOCKS[4],)


def test_two_blocks_of_a_number_do_not_both_stay(quarantine: Quarantine) -> None:
    quarantine.add(block(4, 4, state_root=bytes(32)), b"a")
    assert quarantine.add(BLOCKS[3], b"b") == QuarantineRelease((), (b"a",))
    assert len(quarantine) == 1


def test_the_sender_of_an_evicted_block_is_reported(quarantine: Quarantine) -> None:
    blocks = chain(MAX_BLOCKS + 2)
    rejected = [
        result.rejected for result in (quarantine.add(block, block.block_number.to_bytes(2, "big")) for block in blocks)
    ]
    assert rejected[-2:] == [(b"\0\1",), (b"\0\2",)] and not any(rejected[:-2])
    assert len(quarantine) == MAX_BLOCKS


def test_the_quarantine_is_bounded_in_bytes(quarantine: Quarantine) -> None:
    shared = bytes(MAX_BYTES // 3)
    for number in range(5):
        quarantine.add(msgspec.structs.replace(BLOCKS[number], transactions=(shared,)), b"p")
        assert quarantine.bytes <= MAX_BYTES
    assert len(quarantine) == 2


@pytest.mark.parametrize(("later_ends", "is_released"), [(MAX_TRUSTED - 2, True), (MAX_TRUSTED - 1, False)])
def test_trusted_hashes_are_bounded(quarantine: Quarantine, later_ends: int, is_released: bool) -> None:
    quarantine.trust_range_end(1, BLOCKS[0].block_hash, bytes(32))
    for number in range(1, later_ends + 1):
        quarantine.trust_range_end(7, number.to_bytes(32, "big"), bytes(32))
    assert quarantine.add(BLOCKS[0], b"p").blocks == ((BLOCKS[0],) if is_released else ())
