"""KZG (EIP-4844): whether blobs have the versioned hashes by which transactions name them [BCN13].

A versioned hash is that of a commitment. That a blob has a commitment is shown by its proof; or by computing the
commitment; or, for many blobs at once, by one commitment to a random linear combination of them. The factors of that
combination are hashed from all blobs and commitments, so no attacker can choose blobs that fit them. ckzg takes 36 ms
for a commitment and 1.1 ms for a proof, but its set-up takes 2.3 s to load, for tables of cells that nobody needs here.
py_arkworks_bls12381 takes up to 80 ms for a commitment, in proportion to the elements that are not zero, and 30 us more
for each element at its first use: a process computes its first ones with that, which are all of a short catch-up, and
those of blobs that are mostly empty."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import ckzg
from py_arkworks_bls12381 import G1Point, Scalar

from rollup_node.stages.protocol.types import Hash

T = TypeVar("T")

BLOB_SIZE = 131_072
ELEMENTS = 4096
POINT_SIZE = 48
FIELD_MODULUS = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
HASH_VERSION = b"\x01"

SETUP_FILE = Path(__file__).with_name("kzg_trusted_setup.txt")
"""The trusted setup of the ceremony (consensus-specs, presets/mainnet/trusted_setups) as ckzg reads it: two counts,
then the points of the Lagrange polynomials, those of G2, and the monomials of G1."""

_ELEMENTS_BEFORE_SETUP = 30 * ELEMENTS
"""About as many as py_arkworks_bls12381 computes with in the time that the set-up of ckzg takes."""

_FEW_ELEMENTS = ELEMENTS // 8
"""Up to so many elements py_arkworks_bls12381 takes no longer than ckzg."""

_computed: Counter[str] = Counter()
"""`elements`: with how many this process has computed commitments without the setup of ckzg."""

_ZERO = bytes(32)

_WIDE = 64
_EVERY_OTHER_ELEMENT = int.from_bytes((bytes(32) + b"\xff" * 32) * (ELEMENTS // 2), "big")


@cache
def load_setup() -> Any:
    """Return the trusted setup of ckzg, read once (2.3 s)."""
    return ckzg.load_trusted_setup(str(SETUP_FILE), 0)


@cache
def lagrange_point(index: int) -> G1Point:
    """Return the Lagrange polynomial's point of the trusted setup for an element; computed once (30 us).

    A blob's commitment is the sum of element times point."""
    return G1Point.from_compressed_bytes_unchecked(bytes.fromhex(_lagrange_points()[index]))


@cache
def _lagrange_points() -> list[str]:
    """Return the points in hex, in bit-reversed order."""
    return bit_reversed(SETUP_FILE.read_text().split()[2 : 2 + ELEMENTS])


def bit_reversed(values: Sequence[T]) -> list[T]:
    """As many values as a blob has elements, in the order of the reversed bits of their indexes (EIP-4844)."""
    bits = ELEMENTS.bit_length() - 1
    return [values[int(f"{index:0{bits}b}"[::-1], 2)] for index in range(ELEMENTS)]


def setup_pays() -> bool:
    """Whether this process has loaded the setup of ckzg, or has computed so many commitments that it pays to."""
    return _computed["elements"] >= _ELEMENTS_BEFORE_SETUP or load_setup.cache_info().currsize > 0


def versioned_hash(commitment: bytes) -> Hash:
    """Return the hash by which a transaction names the blob with this commitment."""
    return HASH_VERSION + sha256(commitment).digest()[1:]


def is_canonical(blob: bytes) -> bool:
    """Whether a blob has the right size and all its elements are below the field modulus."""
    if len(blob) != BLOB_SIZE:
        return False
    # Nearly all real blobs pass this quick test of the first bytes.
    if max(blob[::32]) < FIELD_MODULUS >> 248:
        return True
    return all(int.from_bytes(blob[at : at + 32], "big") < FIELD_MODULUS for at in range(0, BLOB_SIZE, 32))


def blob_to_commitment(blob: bytes) -> bytes:
    """Return the commitment of a canonical blob (up to 80 ms for the first of a process, then 36 ms)."""
    pieces = (blob[at : at + 32] for at in range(0, BLOB_SIZE, 32))
    elements = {at: piece for at, piece in enumerate(pieces) if piece != _ZERO}
    if len(elements) > _FEW_ELEMENTS and setup_pays():
        return bytes(ckzg.blob_to_kzg_commitment(blob, load_setup()))
    return commit_without_setup(elements)


def commit_without_setup(elements: Mapping[int, bytes]) -> bytes:
    """Return the commitment of a blob with these canonical elements by index, others zero (20 us for each)."""
    _computed["elements"] += len(elements)
    points, scalars = list(map(lagrange_point, elements)), list(map(Scalar.from_be_bytes, elements.values()))
    return bytes(G1Point.multiexp_unchecked(points, scalars).to_compressed_bytes())


def verify_proofs(blobs: Sequence[bytes], commitments: Sequence[bytes], proofs: Sequence[bytes]) -> bool:
    """Whether every proof shows that its blob has its commitment (1.1 ms a blob); False for malformed input."""
    if not len(blobs) == len(commitments) == len(proofs) or any(len(blob) != BLOB_SIZE for blob in blobs):
        return False
    if any(len(point) != POINT_SIZE for point in (*commitments, *proofs)):
        return False
    if not blobs:
        return True
    try:
        return bool(ckzg.verify_blob_kzg_proof_batch(*map(b"".join, (blobs, commitments, proofs)), load_setup()))
    except (RuntimeError, ValueError):
        return False


def verify_commitments(blobs: Sequence[bytes], commitments: Sequence[bytes]) -> bool:
    """Whether every blob has its commitment, by one random linear combination; False for malformed input."""
    if not all(is_canonical(blob) for blob in blobs):
        return False
    try:
        points = [G1Point.from_compressed_bytes(commitment) for commitment in commitments]
    except (ValueError, TypeError):
        return False
    factors = combination_factors(blobs, commitments)
    expected = G1Point.multiexp_unchecked(points, [Scalar.from_le_bytes(f.to_bytes(32, "little")) for f in factors])
    return blob_to_commitment(combine_blobs(blobs, factors)) == bytes(expected.to_compressed_bytes())


def combination_factors(blobs: Sequence[bytes], commitments: Sequence[bytes]) -> list[int]:
    """Odd factors of 128 bits, one a blob, that depend on all blobs and commitments."""
    seed = sha256(b"".join(sha256(blob).digest() for blob in blobs) + b"".join(commitments)).digest()
    return [
        int.from_bytes(sha256(seed + index.to_bytes(4, "big")).digest()[:16], "big") | 1 for index in range(len(blobs))
    ]


def combine_blobs(blobs: Sequence[bytes], factors: Sequence[int]) -> bytes:
    """Return the blob whose elements are the sums of factor times element, modulo the field modulus.

    A blob is multiplied as one number, its odd and its even elements apart, so that each product has the room of two
    elements."""
    odd = even = 0
    for blob, factor in zip(blobs, factors, strict=True):
        number = int.from_bytes(blob, "big")
        odd += (number & _EVERY_OTHER_ELEMENT) * factor
        even += (number >> 256 & _EVERY_OTHER_ELEMENT) * factor
    return b"".join(part for pair in zip(_reduced(even), _reduced(odd), strict=True) for part in pair)


def _reduced(sums: int) -> list[bytes]:
    """Return the elements of one half, each reduced modulo the field modulus."""
    raw = sums.to_bytes(ELEMENTS // 2 * _WIDE, "big")
    return [
        (int.from_bytes(raw[at : at + _WIDE], "big") % FIELD_MODULUS).to_bytes(32, "big")
        for at in range(0, len(raw), _WIDE)
    ]
