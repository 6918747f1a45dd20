"""The sequencer's signature over a gossiped block, and who may give it (node-behaviour 6, 13.5, 9.3)."""

from coincurve import PrivateKey, PublicKey

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import public_key_address
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address, Hash

SIGNATURE_SIZE = 65
DOMAIN = bytes(32)
GRACE_SECONDS = 3 * 3600.0
"""How long the signer before a rotation is still accepted."""


def payload_hash(signed_part: bytes) -> Hash:
    """What a remote signer is given of a block's bytes (beacon root and SSZ)."""
    return keccak256(signed_part)


def signing_hash(chain_id: int, signed_part: bytes) -> Hash:
    """What the sequencer signs."""
    return keccak256(DOMAIN + chain_id.to_bytes(32, "big") + payload_hash(signed_part))


def recover_signer(digest: Hash, signature: bytes) -> Address | None:
    """The account that signed, None if the signature is none. The last byte is 0 to 3; as in op-node a high s is
    allowed: the block's hash, not the message's id, says whether it was seen."""
    if len(signature) != SIGNATURE_SIZE or signature[64] > 3:
        return None
    try:
        key = PublicKey.from_signature_and_message(signature, digest, hasher=None)
    except Exception:  # the library's versions differ in what they raise for a point that is not on the curve
        return None
    return public_key_address(key.format(compressed=False))


class LocalSigner:
    """Signs blocks with a key of 32 bytes; ValueError for one that is no key of the curve."""

    def __init__(self, secret: bytes) -> None:
        self._key = PrivateKey(secret)
        self.address = public_key_address(self._key.public_key.format(compressed=False))

    def sign(self, chain_id: int, signed_part: bytes) -> bytes:
        """Signature of 65 bytes: r, s, and 0 or 1."""
        return self._key.sign_recoverable(signing_hash(chain_id, signed_part), hasher=None)


class UnsafeBlockSigners:
    """Whose blocks are accepted: the signer that L1 names, and for a while the one before it, until a block of the
    new one is seen. Only one former signer is remembered. Times are seconds of any steady clock."""

    def __init__(self) -> None:
        self.current: Address | None = None
        self._previous: Address | None = None
        self._changed_at = 0.0

    def update(self, address: Address, now: float) -> bool:
        """Takes the signer found on L1 (the zero address: none is set); True when it is another than before."""
        found = None if address == ZERO_ADDRESS else address
        if found == self.current:
            return False
        self._previous, self._changed_at = self.current, now
        self.current = found
        return True

    def previous(self, now: float) -> Address | None:
        """The former signer, while it is accepted."""
        return self._previous if now - self._changed_at <= GRACE_SECONDS else None

    def accept(self, address: Address, now: float) -> bool:
        """Whether a block signed by the account may pass; one of the present signer ends the grace of the former."""
        if address == self.current:
            self._previous = None
            return True
        return self.current is not None and address == self.previous(now)
