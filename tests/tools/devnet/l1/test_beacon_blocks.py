"""Beacon blocks before and from Gloas on."""

from typing import Any

import orjson
import pytest

from rollup_node.stages.blobs.beacon_api import parse_block_commitments
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.evm.state_transition.forks import L1_FORKS
from rollup_node.tools.devnet.files import l1_genesis
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.beacon_blocks import (
    CONSENSUS_FORKS,
    BeaconBlock,
    beacon_block,
    blinded,
    consensus_rules,
)

COMMITMENTS = (b"\x01" * 48, b"\x02" * 48)


@pytest.fixture(scope="module")
def execution_block() -> Block:
    """Block 1 of an L1."""
    backend = L1Backend(l1_genesis(1_700_000_000), 2)
    return backend.mine(1_700_000_002)


def made(fork: str, block: Block) -> BeaconBlock:
    return beacon_block(CONSENSUS_FORKS[fork], 1, block, COMMITMENTS, finalized=True)


def commitments(signed: Any) -> tuple[bytes, ...]:
    """As the node reads them."""
    return parse_block_commitments(orjson.dumps({"data": signed}))


def test_before_gloas_a_block_has_payload_and_commitments(execution_block: Block) -> None:
    block = made("osaka", execution_block)
    body = block.signed["message"]["body"]
    assert body.keys() == {"execution_payload", "blob_kzg_commitments"}
    payload = body["execution_payload"]
    assert payload["block_hash"] == to_hex(execution_block.hash) and payload["transactions"] == []
    found = blinded(block)
    assert found is not None and found["message"]["body"].keys() == {"execution_payload_header", "blob_kzg_commitments"}
    assert found["message"]["body"]["execution_payload_header"]["block_hash"] == to_hex(execution_block.hash)
    assert commitments(block.signed) == commitments(found) == COMMITMENTS
    assert "execution_payload" in body, "the block itself does not change"


def test_in_gloas_a_block_has_a_bid_alone(execution_block: Block) -> None:
    """[BCN19]"""
    block = made("amsterdam", execution_block)
    message = block.signed["message"]
    assert message["body"].keys() == {"signed_execution_payload_bid", "payload_attestations"}
    bid, header = message["body"]["signed_execution_payload_bid"]["message"], execution_block.header
    assert bid["block_hash"] == to_hex(execution_block.hash)
    assert bid["parent_block_hash"] == to_hex(header.parent_hash)
    assert (bid["slot"], bid["builder_index"], bid["gas_limit"]) == ("1", str(2**64 - 1), str(header.gas_limit))
    assert bid["parent_block_root"] == message["parent_root"] == to_hex(header.parent_beacon_root or b"")
    assert blinded(block) is None and commitments(block.signed) == COMMITMENTS


def test_they_activate_with_the_forks_of_the_execution_layer() -> None:
    rules = consensus_rules({"cancunTime": 0, "pragueTime": 0, "osakaTime": 5, "bpo1Time": 6, "amsterdamTime": 9})
    assert [rules.at(time).name for time in (4, 5, 6, 8, 9, 99)] == ["electra", *3 * ["fulu"], "gloas", "gloas"]
    assert [rules.at(time).has_bids for time in (8, 9)] == [False, True]
    assert consensus_rules({}).at(5).name == "bellatrix"
    assert CONSENSUS_FORKS.keys() <= {each.name for each in L1_FORKS}
