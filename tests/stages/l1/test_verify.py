"""L1 blocks against their hashes: recorded ones pass, and changed ones are refused with an error that says where."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.verify import (
    SIGNER_SLOT,
    InvalidDataError,
    address_in,
    parse_result,
    proven_value,
    stored_value,
    verify_header,
)
from rollup_node.stages.protocol.answer_limits import SMALL
from rollup_node.stages.protocol.headers import UNREAD_FIELDS, header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, AccountProof
from rollup_node.stages.protocol.types import BlobRef
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.recorded.recording import Recording
from tests.support.chains.l1_with_signer import CONTRACT, SIGNER, l1_with_signer
from tests.support.l1_blocks import verify_json

BLOCK = 6_582_896
BATCHER = bytes.fromhex("8f23bb38f531600e5d8fddaaec41f13fab46e98c")
Json = Any
Blocks = Callable[[int], Json]


def error_of(block: Json, l1_filter: L1Filter, trust: bool = False, number: int = BLOCK) -> str:
    with pytest.raises(InvalidDataError) as caught:
        verify_json(block, number, trust, l1_filter)
    return str(caught.value)


def test_all_recorded_blocks_verify(recording: Recording, l1_filter: L1Filter) -> None:
    whole = [block for block in recording.by_number.values() if block.transactions is not None]
    assert len(whole) == 58
    inbox: list[tuple[int, tuple[BlobRef, ...]]] = []
    with_receipts = []
    for block in whole:
        verified = verify_json(block.block(True), block.number, False, l1_filter)
        assert verified.header.hash == block.hash
        assert all(transaction.sender == BATCHER for transaction in verified.inboxes[0])
        inbox += [(block.number, transaction.blobs) for transaction in verified.inboxes[0]]
        if verified.needs_receipts:
            with_receipts.append(block.number)
            assert len(verified.transaction_hashes) == len(block.transactions or ())
        for transaction in verified.inboxes[0]:
            for blob in transaction.blobs:
                assert recording.block(block.number).blob_hashes()[blob.index] == blob.hash
    assert {blob.hash for _, blobs in inbox for blob in blobs} == set(recording.blobs)
    assert with_receipts == [6_582_923, 6_582_933, 6_582_952]


@pytest.mark.parametrize("form", ["pre-shanghai", "post-shanghai"])
def test_recorded_mainnet_blocks_verify(form: str, shared_data: Path, l1_filter: L1Filter) -> None:
    block = orjson.loads((shared_data / "l1" / f"op_service_blocks_{form}-success_data.json").read_bytes())
    number = int(block["number"], 16)
    verified = verify_json(block, number, False, l1_filter)
    assert "0x" + verified.header.hash.hex() == block["hash"]
    assert verified.inboxes == ((),)
    if form == "post-shanghai":
        assert block["withdrawals"]
        block["withdrawals"][0]["amount"] = "0x1"
        assert "do not match its withdrawals root" in error_of(block, l1_filter, number=number)
        block["withdrawals"][0]["amount"] = 1
        assert "malformed withdrawal" in error_of(block, l1_filter, number=number)
    else:
        block["withdrawals"] = []
        assert "has withdrawals, but no withdrawals root" in error_of(block, l1_filter, number=number)


def test_a_trusted_header_may_lack_what_nothing_is_derived_from(block_json: Blocks, l1_filter: L1Filter) -> None:
    """As with op-node, whose header leaves missing fields zero [LHD10]."""
    whole, block = block_json(BLOCK), block_json(BLOCK)
    for name in UNREAD_FIELDS:
        del block[name]
    assert verify_json(block, BLOCK, True, l1_filter) == verify_json(whole, BLOCK, True, l1_filter)
    assert "malformed header" in error_of(block, l1_filter)
    del block["mixHash"]
    assert "malformed header: mixHash" in error_of(block, l1_filter, trust=True)


ROOT = f"the transactions of block {BLOCK} do not match its transactions root"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda block: block.update(timestamp="0x1"), f"block {BLOCK} claims hash 0x"),
        (lambda block: block["transactions"][3].update(value="0x7"), ROOT),
        (lambda block: block["transactions"].pop(0), ROOT),
        (lambda block: block["transactions"].reverse(), ROOT),
    ],
)
def test_what_does_not_match_its_hash_passes_only_from_a_trusted_endpoint(
    change: Callable[[Json], object], text: str, block_json: Blocks, l1_filter: L1Filter
) -> None:
    block = block_json(BLOCK)
    change(block)
    assert error_of(block, l1_filter).startswith(text)
    assert to_hex(verify_json(block, BLOCK, True, l1_filter).header.hash) == block["hash"]


def test_malformed_blocks(block_json: Blocks, l1_filter: L1Filter) -> None:
    block = block_json(BLOCK)
    block["transactions"][5]["nonce"] = None
    assert f"transaction 5 of block {BLOCK}" in error_of(block, l1_filter)
    block["transactions"] = ["0x00"]
    assert "Expected `object`, got `str` - at `$.result.transactions[0]`" in error_of(block, l1_filter)
    block["transactions"] = None
    assert "has no list of full transactions" in error_of(block, l1_filter)
    del block["stateRoot"]
    assert "malformed header: stateRoot" in error_of(block, l1_filter)
    assert error_of(None, l1_filter) == "the answer is not a block"
    others: list[Any] = [[], "0x", 5]
    for other in others:
        assert "the answer is malformed: Expected `object | null`" in error_of(other, l1_filter)


def test_an_unknown_transaction_type_passes_only_from_a_trusted_endpoint(
    block_json: Blocks, l1_filter: L1Filter
) -> None:
    block = block_json(BLOCK)
    expected = verify_json(block, BLOCK, False, l1_filter)
    block["transactions"].append({**block["transactions"][0], "type": "0x5"})
    assert "unknown transaction type 0x05" in error_of(block, l1_filter)
    assert verify_json(block, BLOCK, True, l1_filter) == expected
    block["transactions"][-1]["type"] = "five"
    assert "transaction" in error_of(block, l1_filter, trust=True)


def test_a_block_without_transactions_has_no_receipts(block_json: Blocks, l1_filter: L1Filter) -> None:
    block = block_json(6_582_952)
    block["transactions"] = []
    block["transactionsRoot"] = "0x" + EMPTY_ROOT.hex()
    assert not verify_json(block, 6_582_952, True, l1_filter).needs_receipts
    block["hash"] = _rehashed(block)
    assert "a receipts root that is not empty" in error_of(block, l1_filter, number=6_582_952)
    block["receiptsRoot"] = "0x" + EMPTY_ROOT.hex()
    block["hash"] = _rehashed(block)
    assert not verify_json(block, 6_582_952, False, l1_filter).needs_receipts


def test_an_empty_bloom_proves_nothing_if_the_hash_is_not_checked(block_json: Blocks, l1_filter: L1Filter) -> None:
    block = block_json(BLOCK)
    assert not verify_json(block, BLOCK, True, l1_filter).needs_receipts
    block["logsBloom"] = "0x" + bytes(256).hex()
    assert verify_json(block, BLOCK, True, l1_filter).needs_receipts


def test_a_fee_too_large_for_a_message(block_json: Blocks, l1_filter: L1Filter) -> None:
    block = block_json(BLOCK)
    block["baseFeePerGas"] = hex(1 << 64)
    block["hash"] = _rehashed(block)
    assert "more than 64 bits" in error_of(block, l1_filter)


def test_results_are_taken_out_of_answers() -> None:
    assert parse_result(b'{"id":1,"result":[1]}', SMALL, list[int]) == [1]
    assert parse_result(b'{"id":1,"result":[1],"error":null}', SMALL, list[int]) == [1], "[RPC97]"
    assert parse_result(b'{"id":1,"result":null}', SMALL, list[int]) is None
    for body, text in (
        (b'{"id":1,"error":{"code":1,"message":"no"}}', 'answered with an error: {"code":1,"message":"no"}'),
        (b'{"id":1,"result":["1"]}', "malformed: Expected `int`"),
        (b"[]", "malformed: Expected `object`"),
        (b"{", "not JSON"),
    ):
        with pytest.raises(InvalidDataError, match=text):
            parse_result(body, SMALL, list[int])


def _rehashed(block: Json) -> str:
    return "0x" + header_hash(verify_header(block, True)[0]).hex()


Proof = dict[str, Any]


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: {},
        lambda proof: {**proof, "accountProof": None},
        lambda proof: {**proof, "accountProof": proof["accountProof"][1:]},
        lambda proof: {**proof, "storageProof": []},
        lambda proof: {**proof, "storageProof": None},
        lambda proof: {**proof, "storageProof": [{}]},
        lambda proof: {**proof, "storageProof": [{"proof": ["0xzz"]}]},
        lambda proof: {**proof, "storageProof": [{"proof": ["0xc0"]}]},
    ],
)
def test_a_proof_that_does_not_hold_is_refused(change: Callable[[Proof], Proof]) -> None:
    """[LHD12]"""
    api = EthApi(backend := l1_with_signer(), "test").methods()
    proof: Proof = api["eth_getProof"](to_hex(CONTRACT), [to_hex(SIGNER_SLOT)], "latest")
    root = backend.chain.head.header.state_root
    read = partial(msgspec.convert, type=AccountProof)
    assert address_in(proven_value(read(proof), root, CONTRACT, SIGNER_SLOT)) == SIGNER
    with pytest.raises(InvalidDataError):
        proven_value(read(change(proof)), root, CONTRACT, SIGNER_SLOT)


@pytest.mark.parametrize("result", [None, 1, "zz", "0x" + 33 * "00"])
def test_a_malformed_storage_value_is_refused(result: object) -> None:
    with pytest.raises(InvalidDataError):
        stored_value(result)


def test_a_storage_value_holds_an_address() -> None:
    assert address_in(stored_value(to_hex(SIGNER))) == SIGNER
