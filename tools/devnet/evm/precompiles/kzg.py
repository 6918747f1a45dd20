"""The point evaluation precompile (EIP-4844). The trusted setup is loaded at first use."""

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt

_INPUT = 192


def evaluate(data: bytes) -> bytes:
    """Verifies that a committed polynomial has a value at a point. Raises ExceptionalHalt for an invalid proof."""
    import ckzg

    from rollup_node.stages.blobs.kzg import ELEMENTS, FIELD_MODULUS, load_setup, versioned_hash

    if len(data) != _INPUT:
        raise ExceptionalHalt("invalid point evaluation input length")
    point, value = data[32:64], data[64:96]
    commitment, proof = data[96:144], data[144:]
    if data[:32] != versioned_hash(commitment):
        raise ExceptionalHalt("mismatched versioned hash")
    try:
        proven = ckzg.verify_kzg_proof(commitment, point, value, proof, load_setup())
    except (ValueError, RuntimeError) as error:
        raise ExceptionalHalt(f"invalid point evaluation input: {error}") from None
    if not proven:
        raise ExceptionalHalt("invalid point evaluation proof")
    return ELEMENTS.to_bytes(32, "big") + FIELD_MODULUS.to_bytes(32, "big")
