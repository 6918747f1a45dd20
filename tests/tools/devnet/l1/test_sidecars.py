"""Blob transactions in their network form, and the checks of their sidecars."""

import pytest

from rollup_node.stages.protocol import rlp
from rollup_node.tools.batcher.channels import encode_blob
from rollup_node.tools.batcher.signing import BlobTransaction, Fees, Key, blob_transaction, dynamic_fee_transaction
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction
from rollup_node.tools.devnet.l1.sidecars import read_pooled

KEY = Key(b"\x05" * 32)
CHAIN_ID = 900
FEES = Fees(tip=1, cap=2, blob_cap=3)
BLOBS = [encode_blob(b"one"), encode_blob(b"two")]


@pytest.fixture(scope="module")
def built() -> BlobTransaction:
    return blob_transaction(KEY, CHAIN_ID, 0, b"\xaa" * 20, BLOBS, 21_000, FEES)


def test_blobs_by_versioned_hash(built: BlobTransaction) -> None:
    transaction, blobs = read_pooled(built.pooled, CHAIN_ID)
    assert (transaction.hash, transaction.sender) == (built.hash, KEY.address)
    assert tuple(blobs) == built.versioned_hashes
    assert [blob.content for blob in blobs.values()] == BLOBS


def test_other_transactions_have_no_blobs() -> None:
    raw = dynamic_fee_transaction(KEY, CHAIN_ID, 0, b"\xaa" * 20, 0, b"", 21_000, FEES)
    transaction, blobs = read_pooled(raw, CHAIN_ID)
    assert (transaction.raw, blobs) == (raw, {})


def test_invalid_sidecars(built: BlobTransaction) -> None:
    body, blobs, commitments, proofs = rlp.decode(built.pooled[1:])
    for parts, error in (
        ([body, blobs[:1], commitments, proofs], "number of blobs"),
        ([body, blobs, commitments[::-1], proofs], "commitments"),
        ([body, blobs, commitments, proofs[::-1]], "invalid proof"),
        ([body, blobs[::-1], commitments, proofs], "invalid proof"),
        ([body, blobs, commitments], "without a sidecar"),
        (body, "without a sidecar"),
    ):
        with pytest.raises(InvalidTransaction, match=error):
            read_pooled(b"\x03" + rlp.encode(parts), CHAIN_ID)
    with pytest.raises(InvalidTransaction, match="blob transaction"):
        read_pooled(b"\x03\xff", CHAIN_ID)
