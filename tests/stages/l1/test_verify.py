"""L1 blocks against their hashes: real ones pass, and every kind of damage is refused with its reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollup_node.stages.l1.filter import Filter
from rollup_node.stages.l1.verify import InvalidDataError, block_ref, result_of, verify_block, verify_header
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import BlobRef
from rollup_node.tools.recorded.recording import Recording

BLOCK = 6_582_896
BATCHER = bytes.fromhex("8f23bb38f531600e5d8fddaaec41f13fab46e98c")
Json = Any
Blocks = Callable[[int], Json]


def refusal(block: Json, rules: Filter, trust: bool = False, number: int = BLOCK) -> str:
    with pytest.raises(InvalidDataError) as caught:
        verify_block(block, number, trust, rules)
    return str(caught.value)


def test_all_recorded_blocks_verify(recording: Recording, rules: Filter) -> None:
    whole = [block for block in recording.by_number.values() if block.transactions is not None]
    assert len(whole) == 58
    inbox: list[tuple[int, tuple[BlobRef, ...]]] = []
    with_receipts = []
    for block in whole:
        verified = verify_block(block.block(True), block.number, False, rules)
        assert verified.header.hash == block.hash
        assert all(transaction.sender == BATCHER for transaction in verified.inbox)
        inbox += [(block.number, transaction.blobs) for transaction in verified.inbox]
        if verified.needs_receipts:
            with_receipts.append(block.number)
            assert len(verified.transaction_hashes) == len(block.transactions or ())
        for transaction in verified.inbox:
            for blob in transaction.blobs:
                assert recording.block(block.number).blob_hashes()[blob.index] == blob.hash
    assert {blob.hash for _, blobs in inbox for blob in blobs} == set(recording.blobs)
    assert with_receipts == [6_582_923, 6_582_933, 6_582_952]


def test_trusting_gives_the_same_as_verifying(recording: Recording, rules: Filter) -> None:
    for number in (6_582_895, BLOCK, 6_582_952):
        block = recording.block(number).block(True)
        assert verify_block(block, number, True, rules) == verify_block(block, number, False, rules)


@pytest.mark.parametrize("form", ["pre-shanghai", "post-shanghai"])
def test_recorded_mainnet_blocks_verify(form: str, shared_data: Path, rules: Filter) -> None:
    block = orjson.loads((shared_data / "l1" / f"op_service_blocks_{form}-success_data.json").read_bytes())
    number = int(block["number"], 16)
    verified = verify_block(block, number, False, rules)
    assert "0x" + verified.header.hash.hex() == block["hash"]
    assert verified.inbox == ()
    if form == "post-shanghai":
        assert block["withdrawals"]
        block["withdrawals"][0]["amount"] = "0x1"
        assert "do not match its withdrawals root" in refusal(block, rules, number=number)
        block["withdrawals"][0]["amount"] = 1
        assert "malformed withdrawal" in refusal(block, rules, number=number)
    else:
        block["withdrawals"] = []
        assert "has withdrawals, but no withdrawals root" in refusal(block, rules, number=number)


def test_a_header_that_does_not_hash_to_its_claim(block_json: Blocks, rules: Filter) -> None:
    block = block_json(BLOCK)
    block["timestamp"] = hex(int(block["timestamp"], 16) + 1)
    assert "but its header hashes to 0x" in refusal(block, rules)
    assert verify_block(block, BLOCK, True, rules).header.hash.hex() == block["hash"][2:]


def test_a_block_of_another_number(block_json: Blocks, rules: Filter) -> None:
    assert refusal(block_json(BLOCK), rules, number=BLOCK + 1) == f"asked for block {BLOCK + 1}, got block {BLOCK}"
    assert "asked for block" in refusal(block_json(BLOCK), rules, trust=True, number=BLOCK + 1)


def spoil_value(block: Json) -> None:
    block["transactions"][3]["value"] = "0x7"


def drop_one(block: Json) -> None:
    del block["transactions"][0]


def swap_two(block: Json) -> None:
    block["transactions"][:2] = block["transactions"][1::-1]


@pytest.mark.parametrize("spoil", [spoil_value, drop_one, swap_two])
def test_transactions_that_do_not_match(spoil: Callable[[Json], None], block_json: Blocks, rules: Filter) -> None:
    block = block_json(BLOCK)
    spoil(block)
    assert refusal(block, rules) == f"the transactions of block {BLOCK} do not match its transactions root"
    verify_block(block, BLOCK, True, rules)


def test_malformed_blocks(block_json: Blocks, rules: Filter) -> None:
    block = block_json(BLOCK)
    block["transactions"][5]["nonce"] = None
    assert f"transaction 5 of block {BLOCK}" in refusal(block, rules)
    block["transactions"] = ["0x00"]
    assert "has no list of full transactions" in refusal(block, rules)
    del block["stateRoot"]
    assert "malformed header: stateRoot" in refusal(block, rules)
    for other in (None, [], "0x", 5):
        assert refusal(other, rules) == "the answer is not a block"


def test_an_unknown_transaction_type_passes_only_where_it_is_trusted(block_json: Blocks, rules: Filter) -> None:
    block = block_json(BLOCK)
    expected = verify_block(block, BLOCK, False, rules)
    block["transactions"].append({**block["transactions"][0], "type": "0x5"})
    assert "unknown transaction type 0x05" in refusal(block, rules)
    assert verify_block(block, BLOCK, True, rules) == expected
    block["transactions"][-1]["type"] = "five"
    assert "transaction" in refusal(block, rules, trust=True)


def test_a_block_without_transactions_has_no_receipts(block_json: Blocks, rules: Filter) -> None:
    block = block_json(6_582_952)
    block["transactions"] = []
    block["transactionsRoot"] = "0x" + EMPTY_ROOT.hex()
    assert not verify_block(block, 6_582_952, True, rules).needs_receipts
    block["hash"] = _rehashed(block)
    assert "a receipts root that is not empty" in refusal(block, rules, number=6_582_952)
    block["receiptsRoot"] = "0x" + EMPTY_ROOT.hex()
    block["hash"] = _rehashed(block)
    assert not verify_block(block, 6_582_952, False, rules).needs_receipts


def test_a_trusted_bloom_without_any_bit_is_not_believed(block_json: Blocks, rules: Filter) -> None:
    block = block_json(BLOCK)
    assert not verify_block(block, BLOCK, True, rules).needs_receipts
    block["logsBloom"] = "0x" + bytes(256).hex()
    assert verify_block(block, BLOCK, True, rules).needs_receipts


def test_a_fee_too_large_for_a_message(block_json: Blocks, rules: Filter) -> None:
    block = block_json(BLOCK)
    block["baseFeePerGas"] = hex(1 << 64)
    block["hash"] = _rehashed(block)
    assert "more than 64 bits" in refusal(block, rules)


def test_a_reference_is_verified_too(block_json: Blocks) -> None:
    block = block_json(BLOCK)
    block["transactions"] = [each["hash"] for each in block["transactions"]]
    ref = block_ref(block, False)
    assert (ref.number, "0x" + ref.hash.hex(), "0x" + ref.parent_hash.hex()) == (
        BLOCK,
        block["hash"],
        block["parentHash"],
    )
    block["number"] = "0x1"
    with pytest.raises(InvalidDataError):
        block_ref(block, False)


def test_results_are_taken_out_of_answers() -> None:
    assert result_of(b'{"id":1,"result":[1]}') == [1]
    for body, text in (
        (b'{"id":1,"error":{"code":1,"message":"no"}}', "answered with an error"),
        (b"[]", "not JSON-RPC"),
        (b"{", "not JSON"),
    ):
        with pytest.raises(InvalidDataError, match=text):
            result_of(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=70) | st.just("0x" + "00" * 32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), trust=st.booleans())
def test_no_damage_raises_anything_else(data: st.DataObject, trust: bool, block_json: Blocks, rules: Filter) -> None:
    block = block_json(6_582_950)
    del block["transactions"][5:]
    target = data.draw(st.sampled_from([block, *block["transactions"]]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(JSON)
    try:
        verify_block(block, 6_582_950, trust, rules)
    except InvalidDataError as error:
        assert str(error)


def _rehashed(block: Json) -> str:
    from rollup_node.stages.protocol.headers import header_hash

    return "0x" + header_hash(verify_header(block, True)[0]).hex()
