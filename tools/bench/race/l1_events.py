"""The transactions of L1 blocks that concern the rollup: deposits, a gas limit change, batches in blobs."""

from collections.abc import Sequence

import msgspec

from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.transactions import BLOB, DYNAMIC_FEE, Transaction, signing_hash
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.batcher.batches import BatchBlock, span_batch
from rollup_node.tools.batcher.channels import (
    MAX_BLOB_DATA,
    Compression,
    batcher_data,
    channel_body,
    encode_blob,
    frames,
)
from rollup_node.tools.batcher.kzg_proofs import compute_proof
from rollup_node.tools.batcher.signing import Key
from rollup_node.tools.bench.race.l1_blocks import ACCOUNTS, BASE_FEE, EmittedLog, Included
from rollup_node.tools.devnet.l1.beacon import Blob

BATCHER = Key(b"\x42" * 32)
BLOBS_PER_TRANSACTION = 5
_GAS_LIMIT_UPDATE = 2


def deposit(config: RollupConfig, number: int) -> Included:
    """Return a call of the portal that deposits some ether with a message."""
    sender, data = ACCOUNTS[number % len(ACCOUNTS)], number.to_bytes(100, "big")
    value = _word(10**15 + number)
    opaque = value + value + (100_000).to_bytes(8, "big") + b"\0" + data
    padded = opaque.ljust(-(-len(opaque) // 32) * 32, b"\0")
    topics = (DEPOSIT_TOPIC, sender.rjust(32, b"\0"), ACCOUNTS[-1].rjust(32, b"\0"), bytes(32))
    log = EmittedLog(config.deposit_contract, topics, _word(32) + _word(len(opaque)) + padded)
    return Included(_call(config.deposit_contract, number, data), sender, (log,))


def gas_limit_change(config: RollupConfig, gas_limit: int) -> Included:
    """Return a call of the SystemConfig that sets the L2 gas limit."""
    topics = (CONFIG_UPDATE_TOPIC, bytes(32), _word(_GAS_LIMIT_UPDATE))
    log = EmittedLog(config.l1_system_config, topics, _word(32) + _word(32) + _word(gas_limit))
    return Included(_call(config.l1_system_config, 0, b"\xb4\x0a\x81\x7c" + _word(gas_limit)), ACCOUNTS[0], (log,))


def span_batches(
    blocks: Sequence[BatchBlock], genesis_time: int, parent_origin_number: int, blocks_per_span: int
) -> list[bytes]:
    """Consecutive L2 blocks as span batches.

    `parent_origin_number` is the L1 origin number of the block before the first; `genesis_time` of L2 in seconds."""
    spans: list[bytes] = []
    for first in range(0, len(blocks), blocks_per_span):
        span = blocks[first : first + blocks_per_span]
        spans.append(span_batch(span, genesis_time, parent_origin_number))
        parent_origin_number = span[-1].epoch.number
    return spans


def blobs_of_channel(channel_id: bytes, spans: Sequence[bytes], proofs: bool = True) -> list[Blob]:
    """Return the blobs of one brotli channel of these batches, a frame each; without `proofs` theirs are empty."""
    body = channel_body(spans, Compression.BROTLI)
    pieces = frames(channel_id, body, MAX_BLOB_DATA - 1)
    return [_blob(batcher_data([piece]), proofs) for piece in pieces]


def _blob(data: bytes, proof: bool) -> Blob:
    content = encode_blob(data)
    commitment = blob_to_commitment(content)
    return Blob(content, commitment, compute_proof(content, commitment) if proof else b"")


def batcher_transactions(inbox: Address, nonce: int, blobs: Sequence[Blob]) -> list[Included]:
    """Signed transactions of the batcher to its inbox that carry the blobs in their order."""
    hashes = [versioned_hash(blob.commitment) for blob in blobs]
    return [
        _batcher_transaction(
            inbox, nonce + first // BLOBS_PER_TRANSACTION, hashes[first : first + BLOBS_PER_TRANSACTION]
        )
        for first in range(0, len(hashes), BLOBS_PER_TRANSACTION)
    ]


def _batcher_transaction(inbox: Address, nonce: int, hashes: Sequence[bytes]) -> Included:
    unsigned = Transaction(
        BLOB,
        1,
        nonce,
        10**8,
        BASE_FEE * 2,
        21_000,
        inbox,
        0,
        b"",
        0,
        0,
        0,
        max_blob_fee=10**9,
        blob_hashes=tuple(hashes),
    )
    y_parity, r, s = BATCHER.sign(signing_hash(unsigned))
    return Included(msgspec.structs.replace(unsigned, y_parity=y_parity, r=r, s=s), BATCHER.address)


def _call(to: Address, nonce: int, data: bytes) -> Transaction:
    return Transaction(DYNAMIC_FEE, 1, nonce, 10**8, BASE_FEE * 2, 300_000, to, 0, data, 0, 1 + nonce, 1)


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")
