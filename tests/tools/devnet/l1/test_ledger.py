"""The embedded L1: blocks that verify, blob transactions, labels and reorganisations."""

import pytest

from rollup_node.stages.blobs.kzg import verify_proofs
from rollup_node.stages.protocol.headers import decode_header, encode_header, header_hash
from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.batcher.signing import Fees, blob_transaction, dynamic_fee_transaction
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction
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
from rollup_node.tools.devnet.l1.ledger import FINALIZED_DISTANCE, SAFE_DISTANCE, L1Ledger
from rollup_node.tools.devnet.traffic import TRANSACTION_DEPOSITED, deposit_call

GENESIS_TIME = 1_700_000_000
SLOT = 2
GWEI = 10**9
FEES = Fees(GWEI, 50 * GWEI, 50 * GWEI)


@pytest.fixture
def ledger() -> L1Ledger:
    return L1Ledger(l1_genesis(GENESIS_TIME), SLOT)


def _mine(ledger: L1Ledger, blocks: int = 1) -> None:
    for _ in range(blocks):
        ledger.mine(ledger.chain.head.header.timestamp + SLOT)


def test_blocks_follow_each_other_in_slots(ledger: L1Ledger) -> None:
    _mine(ledger, 6)
    for number in range(1, 7):
        block = ledger.chain.at(number)
        parent = ledger.chain.at(number - 1)
        assert block is not None and parent is not None
        assert block.header.parent_hash == parent.hash == header_hash(parent.header)
        assert block.header.timestamp == GENESIS_TIME + number * SLOT
        assert decode_header(encode_header(block.header)) == block.header
    assert ledger.chain.safe.number == 6 - SAFE_DISTANCE
    assert ledger.chain.finalized.number == 6 - FINALIZED_DISTANCE


def test_the_logger_contracts_emit_what_they_are_given(ledger: L1Ledger) -> None:
    data = deposit_call(DEPOSITOR_KEY.address, RECEIVER_KEY.address, mint=5, value=5, gas=100_000)
    ledger.send(dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, PORTAL, 0, data, 200_000, FEES))
    topics = bytes([1]) * 32 + bytes(32) + bytes([2]) * 32
    ledger.send(dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 1, SYSTEM_CONFIG, 0, topics + b"!", 200_000, FEES))
    _mine(ledger)
    deposit, update = (entry.outcome.logs[0] for entry in ledger.chain.head.executed)
    assert deposit.address == PORTAL and deposit.topics[0] == TRANSACTION_DEPOSITED and len(deposit.topics) == 4
    assert deposit.data == data[128:]
    assert update.address == SYSTEM_CONFIG and len(update.topics) == 3 and update.data == b"!"


def test_a_blob_transaction_brings_its_blobs_to_its_slot(ledger: L1Ledger) -> None:
    built = blob_transaction(BATCHER_KEY, L1_CHAIN_ID, 0, INBOX, [encode_blob(b"some data")], 21_000, FEES)
    assert ledger.send(built.pooled) == built.hash
    _mine(ledger)
    ((blob_hash, blob),) = ledger.blobs_at(1) or ()
    assert (blob_hash,) == built.versioned_hashes
    assert verify_proofs([blob.content], [blob.commitment], [blob.proof])
    assert ledger.chain.head.header.blob_gas_used == 131_072
    assert ledger.blobs_at(2) is None


def test_a_sidecar_that_does_not_fit_is_refused(ledger: L1Ledger) -> None:
    good = blob_transaction(BATCHER_KEY, L1_CHAIN_ID, 0, INBOX, [encode_blob(b"some data")], 21_000, FEES)
    damaged = good.pooled.replace(encode_blob(b"some data"), encode_blob(b"other data"))
    with pytest.raises(InvalidTransaction, match="proof"):
        ledger.send(damaged)
    with pytest.raises(InvalidTransaction, match="sidecar"):
        ledger.send(good.pooled[:1] + b"\xc0")


def test_a_reorganisation_replaces_blocks_and_keeps_transactions(ledger: L1Ledger) -> None:
    _mine(ledger, 4)
    raw = dynamic_fee_transaction(DEPOSITOR_KEY, L1_CHAIN_ID, 0, RECEIVER_KEY.address, 1, b"", 21_000, FEES)
    transaction = ledger.send(raw)
    _mine(ledger, 2)
    old = [ledger.chain.at(number) for number in range(7)]
    ledger.reorganise(3)
    assert ledger.chain.head.number == 7
    for number in range(4):
        assert ledger.chain.at(number) == old[number]
    for number in range(4, 7):
        fresh, stale = ledger.chain.at(number), old[number]
        assert fresh is not None and stale is not None and fresh.hash != stale.hash
    place = ledger.chain.place(transaction)
    assert place is not None and place.block.number == 7
