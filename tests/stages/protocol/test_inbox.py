"""Transactions to the batch inbox and their senders [BF1, BF2, BF3]."""

import gzip
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.headers import decode_header
from rollup_node.stages.protocol.inbox import inbox_transaction, inbox_transactions
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from tests.support.foreign.signing_library import eth_account

KEY = b"\x11" * 32
INBOX = b"\xff" + bytes(17) + b"\x01\x02"
CHAIN = 900
BASE: dict[str, Any] = {"nonce": 0, "gas": 21000, "to": INBOX, "value": 1, "data": b"\x00frame"}
FEES = {"maxFeePerGas": 30, "maxPriorityFeePerGas": 2, "chainId": CHAIN}
KINDS: dict[int, dict[str, Any]] = {
    0: {"gasPrice": 9, "chainId": CHAIN},
    2: FEES | {"type": 2},
    3: FEES | {"type": 3, "maxFeePerBlobGas": 4, "blobVersionedHashes": [b"\x01" * 32, b"\x01\x02" * 16]},
}


def signed(kind: int, **changes: Any) -> bytes:
    return bytes(eth_account().sign_transaction(BASE | KINDS[kind] | changes, KEY).raw_transaction)


@given(st.binary(max_size=60))
def test_random_bytes_are_ignored(data: bytes) -> None:
    for raw in (data, data + INBOX, b"\x03" + data, b"\x7e" + data + INBOX, b"\x03" + rlp.encode([data + INBOX] * 14)):
        assert inbox_transaction(raw, INBOX, CHAIN) is None
        assert inbox_transactions([raw], INBOX, CHAIN) == ()


def test_blobs_are_counted_over_the_whole_block() -> None:
    foreign = signed(3, to=b"\xab" * 20, blobVersionedHashes=[b"\x01" * 32] * 3)
    block = [signed(2), foreign, signed(3), signed(0), signed(3)]
    result = inbox_transactions(block, INBOX, CHAIN)
    assert [item.kind for item in result] == [2, 3, 0, 3]
    assert [[blob.index for blob in item.blobs] for item in result] == [[], [3, 4], [], [5, 6]]


def test_hashes_only_where_they_are_wanted() -> None:
    raw = signed(2)
    assert [inbox_transaction.hash for inbox_transaction in inbox_transactions([raw], INBOX, CHAIN)] == [b""]
    assert [
        inbox_transaction.hash for inbox_transaction in inbox_transactions([raw], INBOX, CHAIN, with_hashes=True)
    ] == [keccak256(raw)]


def test_recorded_batcher_transactions(shared_data: Path) -> None:
    lines = gzip.decompress((shared_data / "op_sepolia_replay" / "l1_blocks.jsonl.gz").read_bytes()).splitlines()
    inbox = bytes.fromhex("ff00000000000000000000000000000011155420")
    batcher = bytes.fromhex("8f23bb38f531600e5d8fddaaec41f13fab46e98c")
    blobs: list[bytes] = []
    kinds = []
    for line in lines:
        block = json.loads(line)
        if "txs" not in block:
            continue
        raws = [bytes.fromhex(item) for item in block["txs"]]
        assert ordered_root(raws) == decode_header(bytes.fromhex(block["header_rlp"])).transactions_root
        for transaction in inbox_transactions(raws, inbox, 11155111):
            if transaction.sender == batcher:
                kinds.append(transaction.kind)
                blobs += [blob.hash for blob in transaction.blobs]
    stored = {path.stem[5:] for path in (shared_data / "op_sepolia_replay").glob("blob_*.bin")}
    assert {blob.hex() for blob in blobs} == stored
    assert set(kinds) <= {2, 3}
