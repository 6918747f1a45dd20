"""Parses blob transactions in their network form: splits off the sidecar and verifies it."""

from dataclasses import dataclass

from rollup_node.stages.blobs.kzg import versioned_hash
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, SignedTransaction, read_signed

BLOB_TYPE = 3


@dataclass(frozen=True)
class Blob:
    """A blob with its commitment and proof."""

    content: bytes
    commitment: bytes
    proof: bytes


def read_pooled(raw: bytes, chain_id: int) -> tuple[SignedTransaction, dict[Hash, Blob]]:
    """A transaction as of eth_sendRawTransaction, and its blobs by versioned hash.

    Raises InvalidTransaction for a blob transaction without a valid sidecar with one proof per blob (EIP-4844)."""
    if raw[:1] != bytes((BLOB_TYPE,)):
        return read_signed(raw, chain_id), {}
    try:
        wrapped = rlp.decode(raw[1:])
    except rlp.RlpError as error:
        raise InvalidTransaction(f"blob transaction: {error}") from None
    if not (isinstance(wrapped, list) and len(wrapped) == 4 and all(isinstance(part, list) for part in wrapped)):
        raise InvalidTransaction("blob transaction without a sidecar (body, blobs, commitments, proofs)")
    body, blobs, commitments, proofs = wrapped
    transaction = read_signed(bytes((BLOB_TYPE,)) + rlp.encode(body), chain_id)
    hashes = transaction.body.blob_hashes
    if not len(hashes) == len(blobs) == len(commitments) == len(proofs):
        raise InvalidTransaction("number of blobs in the sidecar differs from the transaction's")
    if tuple(map(versioned_hash, commitments)) != tuple(hashes):
        raise InvalidTransaction("commitments of the sidecar do not match the versioned hashes")
    if not all(map(verify_proof, blobs, commitments, proofs)):
        raise InvalidTransaction("invalid proof in the sidecar")
    found = zip(hashes, blobs, commitments, proofs, strict=True)
    return transaction, {blob_hash: Blob(*parts) for blob_hash, *parts in found}
