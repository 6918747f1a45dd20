"""The embedded L1's chain: slots, labels, logger contracts, blobs and reorgs."""

import json

import pytest

from rollup_node.stages.blobs.beacon_api import parse_block_commitments
from rollup_node.stages.protocol.headers import header_from_json, header_hash
from rollup_node.stages.protocol.receipts import bloom_mask, may_have
from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.batcher.driver import Fees, blob_transaction, dynamic_fee_transaction
from rollup_node.tools.devnet.chain.blocks import Block, block_json
from rollup_node.tools.devnet.evm.access_list import EMPTY_ACCESS_LIST_HASH
from rollup_node.tools.devnet.evm.call_frame import SYSTEM_ADDRESS
from rollup_node.tools.devnet.files import (
    BATCHER_KEY,
    DEPOSITOR_KEY,
    INBOX,
    L1_CHAIN_ID,
    PORTAL,
    RECEIVER_KEY,
    l1_genesis,
)
from rollup_node.tools.devnet.fork_offsets import l1_fork_offsets
from rollup_node.tools.devnet.l1.backend import FINALIZED_DISTANCE, L1Backend

GENESIS_TIME = 1_700_000_000
SLOT = 2
GWEI = 10**9
FEES = Fees(GWEI, 50 * GWEI, 50 * GWEI)


@pytest.fixture
def backend() -> L1Backend:
    return L1Backend(l1_genesis(GENESIS_TIME), SLOT)


def _mine(backend: L1Backend, blocks: int = 1) -> None:
    for _ in range(blocks):
        backend.mine(backend.chain.head.header.timestamp + SLOT)


def chain_of(backend: L1Backend, count: int) -> list[Block]:
    """Return the first blocks of the chain."""
    return [block for number in range(count) if (block := backend.chain.at(number))]


def test_a_reorg_replaces_blocks_and_keeps_transactions(backend: L1Backend) -> None:
    with pytest.raises(ValueError, match="there was no reorg"):
        backend.switch_back()
    _mine(backend, 4)
    raw = dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, RECEIVER_KEY.address, 1, b"", 21_000, FEES)
    transaction = backend.send(raw)
    _mine(backend, 2)
    old = chain_of(backend, 7)
    backend.reorg(3)
    assert backend.chain.head.number == 7
    fresh = chain_of(backend, 8)
    assert fresh[:4] == old[:4] and not any(block in old for block in fresh[4:])
    location = backend.chain.locate(transaction)
    assert location is not None and location.block.number == 7
    _mine(backend, 2)
    new = chain_of(backend, 10)
    backend.switch_back()
    assert backend.chain.head.number == 10 and chain_of(backend, 7) == old
    times = [block.header.timestamp for block in chain_of(backend, 11)]
    assert times == [GENESIS_TIME + number * SLOT for number in range(11)]
    backend.switch_back()
    assert chain_of(backend, 10) == new, "there and back again"


TRANSITION = 4
"""Seconds after genesis at which Amsterdam activates."""


@pytest.fixture
def late_amsterdam() -> L1Backend:
    return L1Backend(l1_genesis(GENESIS_TIME, l1_fork_offsets(f"gloas={TRANSITION}")), SLOT)


def test_headers_across_amsterdam(late_amsterdam: L1Backend) -> None:
    """[HSH5] With the slot, also after slots without a block, and the block access list of what the block did."""
    backend = late_amsterdam
    _mine(backend, 2)
    backend.mine(backend.chain.head.header.timestamp + 3 * SLOT)
    raw = dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, RECEIVER_KEY.address, 1, b"", 21_000, FEES)
    backend.send(raw)
    _mine(backend)
    before, *headers = [block.header for block in chain_of(backend, 5)[1:]]
    assert (before.slot_number, before.block_access_list_hash) == (None, None)
    assert [header.slot_number for header in headers] == [2, 5, 6]
    empty, same, other = (header.block_access_list_hash for header in headers)
    assert empty == same == EMPTY_ACCESS_LIST_HASH != other
    for block in chain_of(backend, 5):
        assert block.hash == header_hash(header_from_json(block_json(block, full=False)))
    (transfer,) = backend.chain.head.executed[0].result.logs
    assert transfer.address == SYSTEM_ADDRESS and transfer.data == (1).to_bytes(32, "big")
    assert not may_have(backend.chain.head.header.logs_bloom, bloom_mask(PORTAL))


def test_amsterdam_at_genesis() -> None:
    backend = L1Backend(l1_genesis(GENESIS_TIME, l1_fork_offsets("gloas=0")), SLOT)
    genesis = backend.chain.genesis.header
    assert (genesis.slot_number, genesis.block_access_list_hash) == (0, EMPTY_ACCESS_LIST_HASH)
    _mine(backend)
    assert backend.chain.head.header.slot_number == 1


def test_beacon_blocks_across_gloas(late_amsterdam: L1Backend) -> None:
    """[BCN19] The commitments are those of the blobs in the order of the slot's execution block."""
    backend = late_amsterdam
    contents = [encode_blob(text) for text in (b"one", b"two")]
    for nonce in range(2):
        backend.send(blob_transaction(BATCHER_KEY, L1_CHAIN_ID, nonce, INBOX, contents, 21_000, FEES).pooled)
        _mine(backend)
    bodies = []
    for slot, fork in ((1, "fulu"), (2, "gloas")):
        block, blobs = backend.beacon_block(slot), backend.blobs_at(slot)
        assert block is not None and blobs is not None and block.rules.name == fork
        text = json.dumps(block.signed).encode()
        assert parse_block_commitments(text) == tuple(blob.commitment for _, blob in blobs)
        assert [blob.content for _, blob in blobs] == contents
        bodies.append(block.signed["message"]["body"].keys())
    assert "blob_kzg_commitments" in bodies[0] and "blob_kzg_commitments" not in bodies[1]
    assert backend.beacon_block(3) is None
    _mine(backend, FINALIZED_DISTANCE)
    finalities = [block.finalized for slot in (1, 2, 3) if (block := backend.beacon_block(slot))]
    assert finalities == [True, True, False]
