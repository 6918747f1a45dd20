"""The precompile that verifies secp256r1 signatures (RIP-7212, EIP-7951)."""

_ONE = (1).to_bytes(32, "big")


def verify(data: bytes) -> bytes:
    """The word 1 for a valid signature, else empty."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    if len(data) != 160:
        return b""
    r, s, x, y = (int.from_bytes(data[at : at + 32], "big") for at in range(32, 160, 32))
    try:
        key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        signature = utils.encode_dss_signature(r, s)
        key.verify(signature, data[:32], ec.ECDSA(utils.Prehashed(hashes.SHA256())))
    except (ValueError, InvalidSignature):
        return b""
    return _ONE
