"""The sequencer's signature of a gossiped block [SGN5, VAL3], and the signers accepted after a change on L1 [RTC5]."""

from typing import Protocol

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address, Hash

DOMAIN = bytes(32)
"""The domain of block signatures [SGN5]."""
GRACE_SECONDS = 3 * 3600.0
"""How long the previous signer is accepted after a change [RTC5]."""


def payload_hash(signed_part: bytes) -> Hash:
    """Return the hash of the signed part (beacon root and SSZ), which a remote signer is given."""
    return keccak256(signed_part)


def signing_hash(chain_id: int, hash_of_payload: Hash) -> Hash:
    """Return the hash that the sequencer signs [SGN5]."""
    return keccak256(DOMAIN + chain_id.to_bytes(32, "big") + hash_of_payload)


class SigningError(Exception):
    """A block cannot be signed now; the text says why, in one line."""


class BlockSigner(Protocol):
    """Signs the blocks of this node. `option` is the one to correct when `address` is not the unsafe block signer."""

    @property
    def address(self) -> Address: ...
    @property
    def option(self) -> str: ...
    async def sign_block(self, chain_id: int, hash_of_payload: Hash) -> bytes:
        """Return a signature of 65 bytes, valid for `address` [SGN5]. Raises SigningError, in bounded time."""

    async def close(self) -> None: ...


class LocalSigner:
    """Signs blocks with a private key of 32 bytes. Raises ValueError when it is not a secp256k1 key."""

    option = "p2p.sequencer.key"

    def __init__(self, secret: bytes) -> None:
        # Imported by the nodes that sign alone: eth-keys brings much along.
        from rollup_node.stages.protocol.keys import private_key

        self._key = private_key(secret)
        self.address: Address = self._key.public_key.to_canonical_address()

    def sign(self, chain_id: int, signed_part: bytes) -> bytes:
        """Return a signature of 65 bytes: r, s, and the recovery id 0 or 1."""
        return self._sign(signing_hash(chain_id, payload_hash(signed_part)))

    async def sign_block(self, chain_id: int, hash_of_payload: Hash) -> bytes:
        """Return the same, of a payload hash."""
        return self._sign(signing_hash(chain_id, hash_of_payload))

    async def close(self) -> None:
        """Nothing to close."""

    def _sign(self, digest: Hash) -> bytes:
        return self._key.sign_msg_hash(digest).to_bytes()


class UnsafeBlockSigners:
    """The unsafe block signer on L1 and, for a grace period or until its first block, the previous one [RTC5]."""

    def __init__(self) -> None:
        self.current: Address | None = None
        self._previous: Address | None = None
        self._changed_at = 0.0

    def update(self, address: Address, now: float) -> bool:
        """Set the signer read from L1 (the zero address: none is set); returns whether it has changed."""
        signer = None if address == ZERO_ADDRESS else address
        if signer == self.current:
            return False
        self._previous, self._changed_at = self.current, now
        self.current = signer
        return True

    def accept(self, address: Address, now: float) -> bool:
        """Whether a block signed by the address is accepted; one of the current signer ends the grace period [VAL3]."""
        if address == self.current:
            self._previous = None
            return True
        is_in_grace = now - self._changed_at <= GRACE_SECONDS
        return self.current is not None and is_in_grace and address == self._previous
