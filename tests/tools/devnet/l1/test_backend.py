"""The embedded L1's chain: slots, labels, logger contracts, blobs and reorgs."""

import pytest

from rollup_node.stages.protocol.headers import decode_header, encode_header, header_hash
from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.batcher.signing import Fees, blob_transaction, dynamic_fee_transaction
from rollup_node.tools.devnet.files import (
    BATCHER_KEY,
    DEPOSITOR_KEY,
    INBOX,
    L1_CHAIN_ID,
    PORTAL,
    RECEIVER_KEY,
    SYSTEM_CONFIG,
    l1_genesis,
)
from rollup_node.tools.devnet.l1.backend import FINALIZED_DISTANCE, SAFE_DISTANCE, L1Backend
from rollup_node.tools.devnet.traffic import TRANSACTION_DEPOSITED, deposit_call

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


def test_blocks_follow_each_other_in_slots(backend: L1Backend) -> None:
    _mine(backend, 6)
    for number in range(1, 7):
        block = backend.chain.at(number)
        parent = backend.chain.at(number - 1)
        assert block is not None and parent is not None
        assert block.header.parent_hash == parent.hash == header_hash(parent.header)
        assert block.header.timestamp == GENESIS_TIME + number * SLOT
        assert decode_header(encode_header(block.header)) == block.header
    assert backend.chain.safe.number == 6 - SAFE_DISTANCE
    assert backend.chain.finalized.number == 6 - FINALIZED_DISTANCE


def test_the_logger_contracts_emit_their_calldata(backend: L1Backend) -> None:
    data = deposit_call(DEPOSITOR_KEY.address, RECEIVER_KEY.address, mint=5, value=5, gas=100_000)
    backend.send(dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, PORTAL, 0, data, 200_000, FEES))
    topics = bytes([1]) * 32 + bytes(32) + bytes([2]) * 32
    backend.send(dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 1, SYSTEM_CONFIG, 0, topics + b"!", 200_000, FEES))
    _mine(backend)
    deposit, update = (entry.result.logs[0] for entry in backend.chain.head.executed)
    assert deposit.address == PORTAL and deposit.topics[0] == TRANSACTION_DEPOSITED and len(deposit.topics) == 4
    assert deposit.data == data[128:]
    assert update.address == SYSTEM_CONFIG and len(update.topics) == 3 and update.data == b"!"


def test_blobs_by_slot(backend: L1Backend) -> None:
    built = blob_transaction(BATCHER_KEY, L1_CHAIN_ID, 0, INBOX, [encode_blob(b"some data")], 21_000, FEES)
    assert backend.send(built.pooled) == built.hash
    _mine(backend)
    blobs = backend.blobs_at(1)
    assert blobs is not None
    ((blob_hash, blob),) = blobs
    assert (blob_hash,) == built.versioned_hashes
    assert verify_proof(blob.content, blob.commitment, blob.proof)
    assert backend.chain.head.header.blob_gas_used == 131_072
    assert backend.blobs_at(2) is None


def test_a_reorg_replaces_blocks_and_keeps_transactions(backend: L1Backend) -> None:
    _mine(backend, 4)
    raw = dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, RECEIVER_KEY.address, 1, b"", 21_000, FEES)
    transaction = backend.send(raw)
    _mine(backend, 2)
    old = [backend.chain.at(number) for number in range(7)]
    backend.reorg(3)
    assert backend.chain.head.number == 7
    for number in range(4):
        assert backend.chain.at(number) == old[number]
    for number in range(4, 7):
        fresh, stale = backend.chain.at(number), old[number]
        assert fresh is not None and stale is not None and fresh.hash != stale.hash
    location = backend.chain.locate(transaction)
    assert location is not None and location.block.number == 7


def test_back_to_the_branch_before_a_reorg(backend: L1Backend) -> None:
    with pytest.raises(ValueError, match="there was no reorg"):
        backend.switch_back()
    _mine(backend, 6)
    old = [backend.chain.at(number) for number in range(7)]
    backend.reorg(3)
    _mine(backend, 2)
    new = [backend.chain.at(number) for number in range(10)]
    backend.switch_back()
    assert backend.chain.head.number == 10 and [backend.chain.at(number) for number in range(7)] == old
    times = [block.header.timestamp for number in range(11) if (block := backend.chain.at(number))]
    assert times == [GENESIS_TIME + number * SLOT for number in range(11)]
    backend.switch_back()
    assert [backend.chain.at(number) for number in range(10)] == new, "there and back again"


def test_a_longer_distance_to_the_final_block() -> None:
    backend = L1Backend(l1_genesis(GENESIS_TIME), SLOT, finalized_distance=8)
    _mine(backend, 9)
    assert backend.chain.finalized.number == 1
