"""Storage slots of the runtime config [RTC4], read out of responses to eth_getProof or eth_getStorageAt."""

from collections.abc import Mapping
from typing import Any

from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, to_hex
from rollup_node.stages.protocol.mpt import ProofError, verify_account, verify_storage
from rollup_node.stages.protocol.types import Address, Hash

SIGNER_SLOT: Hash = bytes.fromhex("65a7ed542fb37fe237fdfbdd70b31598523fe5b32879e307bae27a0bd9581c08")
"""Of the SystemConfig contract: the unsafe block signer."""
REQUIRED_SLOT: Hash = bytes.fromhex("4aaefe95bd84fd3f32700cf3b7566bc944b73138e41958b5785826df2aecace0")
RECOMMENDED_SLOT: Hash = bytes.fromhex("e314dfc40f0025322aacc0ba8ef420b62fb3b702cf01e0cdf3d829117ac2ff1a")
"""Of the ProtocolVersions contract."""


def stored_value(answer: Any) -> bytes:
    """Return the 32 bytes of a response to eth_getStorageAt. Raises InvalidDataError if it is malformed."""
    try:
        value = from_hex(answer)
    except HexError as error:
        raise InvalidDataError(f"malformed storage value: {error}") from None
    if len(value) > 32:
        raise InvalidDataError(f"a storage value of {len(value)} bytes")
    return value.rjust(32, b"\0")


def proven_value(answer: Any, state_root: Hash, address: Address, slot: Hash) -> bytes:
    """Return the 32 bytes that a response to eth_getProof proves for a slot.

    Zero where account or slot are proven absent. Raises InvalidDataError if the proof does not hold."""
    try:
        found = _object(answer)
        account = verify_account(state_root, address, _nodes(found.get("accountProof")))
        if account is None:
            return bytes(32)
        entries = found.get("storageProof")
        if not isinstance(entries, list) or len(entries) != 1:
            raise InvalidDataError("the proof is not of one slot")
        value = verify_storage(account.storage_root, slot, _nodes(_object(entries[0]).get("proof")))
        return value.to_bytes(32, "big")
    except (ProofError, HexError, OverflowError) as error:
        raise InvalidDataError(f"the proof of slot {to_hex(slot)[:10]} does not hold: {error}") from None


def address_in(value: bytes) -> Address:
    """Return the address in the low 20 bytes of a slot."""
    return value[12:]


def _object(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise InvalidDataError("the proof is not an object")
    return found


def _nodes(found: Any) -> list[bytes]:
    if not isinstance(found, list):
        raise InvalidDataError("the proof has no list of nodes")
    return [from_hex(node) for node in found]
