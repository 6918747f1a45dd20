"""Signs Ethereum transactions: dynamic fee (EIP-1559, type 2) and blob transactions with their sidecar (EIP-4844)."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.keys import private_key
from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.batcher.kzg_proofs import compute_proof


@dataclass(frozen=True)
class Key:
    """A secp256k1 key with its address."""

    secret: bytes

    @property
    def address(self) -> Address:
        """The key's Ethereum address."""
        return private_key(self.secret).public_key.to_canonical_address()

    def sign(self, digest: Hash) -> tuple[int, int, int]:
        """Return the recoverable signature (y parity, r, s) of a digest."""
        return private_key(self.secret).sign_msg_hash(digest).vrs


@dataclass(frozen=True)
class Fees:
    """Fee caps in wei; `blob_cap` is per unit of blob gas."""

    tip: int
    cap: int
    blob_cap: int = 0


def dynamic_fee_transaction(
    key: Key, chain_id: int, nonce: int, to: Address | None, value: int, data: bytes, gas: int, fees: Fees
) -> bytes:
    """Return a signed type 2 transaction, encoded; `value` in wei."""
    fields: list[rlp.Item] = [
        *map(_integer, (chain_id, nonce, fees.tip, fees.cap, gas)),
        to or b"",
        _integer(value),
        data,
        [],
    ]
    return b"\x02" + rlp.encode(_signed(key, 2, fields))


@dataclass(frozen=True)
class BlobTransaction:
    """A type 3 transaction: `pooled` is its network form with the sidecar, `hash` that of its canonical form."""

    pooled: bytes
    hash: Hash
    versioned_hashes: tuple[Hash, ...]


def blob_transaction(
    key: Key, chain_id: int, nonce: int, to: Address, blobs: Sequence[bytes], gas: int, fees: Fees
) -> BlobTransaction:
    """Return a signed type 3 transaction with one proof per blob. Takes about 100 ms of CPU per blob."""
    commitments = [blob_to_commitment(blob) for blob in blobs]
    proofs = [compute_proof(blob, commitment) for blob, commitment in zip(blobs, commitments, strict=True)]
    hashes = tuple(map(versioned_hash, commitments))
    fields: list[rlp.Item] = [
        *map(_integer, (chain_id, nonce, fees.tip, fees.cap, gas)),
        to,
        b"",
        b"",
        [],
        _integer(fees.blob_cap),
        list(hashes),
    ]
    signed = _signed(key, 3, fields)
    pooled = b"\x03" + rlp.encode([signed, list(blobs), list[rlp.Item](commitments), list[rlp.Item](proofs)])
    return BlobTransaction(pooled, keccak256(b"\x03" + rlp.encode(signed)), hashes)


def _signed(key: Key, kind: int, fields: list[rlp.Item]) -> list[rlp.Item]:
    signature = key.sign(keccak256(bytes((kind,)) + rlp.encode(fields)))
    return [*fields, *map(_integer, signature)]


def _integer(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")
