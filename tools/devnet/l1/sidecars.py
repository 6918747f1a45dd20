"""Blob transactions as a pool takes them: the canonical transaction apart from its sidecar, which is checked."""

from dataclasses import dataclass

from rollup_node.stages.blobs.kzg import verify_proofs, versioned_hash
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, SignedTransaction, read_signed

BLOB_TYPE = 3


@dataclass(frozen=True)
class Blob:
    """A blob with its commitment and proof."""

    content: bytes
    commitment: bytes
    proof: bytes


def read_pooled(raw: bytes, chain_id: int) -> tuple[SignedTransaction, dict[Hash, Blob]]:
    """A transaction in the form eth_sendRawTransaction takes, and its blobs by versioned hash. InvalidTransaction for
    a blob transaction without a sidecar, or with one that does not fit (EIP-4844's form with a proof per blob)."""
    if raw[:1] != bytes((BLOB_TYPE,)):
        return read_signed(raw, chain_id), {}
    try:
        wrapped = rlp.decode(raw[1:])
    except rlp.RlpError as error:
        raise InvalidTransaction(f"blob transaction: {error}") from None
    if not (isinstance(wrapped, list) and len(wrapped) == 4 and all(isinstance(part, list) for part in wrapped)):
        raise InvalidTransaction("blob transaction without its sidecar (body, blobs, commitments, proofs)")
    body, blobs, commitments, proofs = wrapped
    transaction = read_signed(bytes((BLOB_TYPE,)) + rlp.encode(body), chain_id)
    hashes = transaction.body.blob_hashes
    if not len(hashes) == len(blobs) == len(commitments) == len(proofs):
        raise InvalidTransaction("the sidecar has another number of blobs than the transaction")
    if tuple(map(versioned_hash, commitments)) != tuple(hashes):
        raise InvalidTransaction("the sidecar's commitments do not match the transaction's hashes")
    if not verify_proofs(blobs, commitments, proofs):
        raise InvalidTransaction("a proof of the sidecar does not hold")
    found = zip(hashes, blobs, commitments, proofs, strict=True)
    return transaction, {blob_hash: Blob(*parts) for blob_hash, *parts in found}
