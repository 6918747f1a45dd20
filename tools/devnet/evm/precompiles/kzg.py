"""The point evaluation precompile (EIP-4844)."""

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt

_INPUT = 192


def evaluate(data: bytes) -> bytes:
    """Verifies that a committed polynomial has a value at a point. Raises ExceptionalHalt for an invalid proof."""
    # Imported at first use, which few networks have.
    from rollup_node.stages.blobs.kzg import ELEMENTS, FIELD_MODULUS, versioned_hash
    from rollup_node.tools.batcher.kzg_proofs import verify_opening

    if len(data) != _INPUT:
        raise ExceptionalHalt("invalid point evaluation input length")
    point, value = (int.from_bytes(data[at : at + 32], "big") for at in (32, 64))
    commitment, proof = data[96:144], data[144:]
    if data[:32] != versioned_hash(commitment):
        raise ExceptionalHalt("mismatched versioned hash")
    if max(point, value) >= FIELD_MODULUS:
        raise ExceptionalHalt("invalid point evaluation input: not a field element")
    if not verify_opening(commitment, point, value, proof):
        raise ExceptionalHalt("invalid point evaluation proof")
    return ELEMENTS.to_bytes(32, "big") + FIELD_MODULUS.to_bytes(32, "big")
