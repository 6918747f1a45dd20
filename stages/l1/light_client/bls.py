"""BLS signatures of the consensus layer: public keys in G1, signatures in G2, proof of possession [LCP2]."""

from collections.abc import Sequence

from py_arkworks_bls12381 import GT, G1Point, G2Point

DST = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_"
"""Domain separation tag of the proof of possession scheme."""


def public_keys(compressed: Sequence[bytes]) -> list[G1Point]:
    """Return the points of keys that are part of a proven beacon state, which holds only keys of the subgroup.

    Raises ValueError for one that is no point of the curve, or the point at infinity."""
    points = [G1Point.from_compressed_bytes_unchecked(key) for key in compressed]
    if any(point == G1Point.identity() for point in points):
        raise ValueError("a public key is the point at infinity")
    return points


def fast_aggregate_verify(keys: Sequence[G1Point], message: bytes, signature: bytes) -> bool:
    """Whether a signature of 96 bytes is that of all keys over the same message; False for no keys."""
    if not keys:
        return False
    try:
        point = G2Point.from_compressed_bytes(signature)
    except ValueError:
        return False
    return bool(GT.pairing_check([sum(keys[1:], keys[0]), -G1Point()], [G2Point.hash_to_curve(message, DST), point]))
