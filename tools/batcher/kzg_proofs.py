"""KZG proofs of blobs (EIP-4844, polynomial-commitments.md of the consensus specs) without the set-up of ckzg.

That takes 2.3 s of CPU to load; most local networks prove few blobs, and most elements of these are zero."""

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from operator import mul

import ckzg
from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from rollup_node.stages.blobs.kzg import (
    BLOB_SIZE,
    ELEMENTS,
    FIELD_MODULUS,
    SETUP_FILE,
    bit_reversed,
    commit_without_setup,
    load_setup,
    setup_pays,
    verify_proofs,
)

_CHALLENGE_DOMAIN = b"FSBLOBVERIFY_V1_" + ELEMENTS.to_bytes(16, "big")
_PRIMITIVE_ROOT = 7


def compute_proof(blob: bytes, commitment: bytes) -> bytes:
    """Return the proof that a canonical blob has this commitment (about 90 ms, 40 ms with the set-up of ckzg).

    A commitment to the quotient of the blob's polynomial less its value at the challenge, and of X less the
    challenge."""
    if setup_pays():
        return bytes(ckzg.compute_blob_kzg_proof(blob, commitment, load_setup()))
    point = _challenge(blob, commitment)
    elements = [int.from_bytes(blob[at : at + 32], "big") for at in range(0, BLOB_SIZE, 32)]
    roots = roots_of_unity()
    inverses = _inverses([root - point for root in roots])
    value = _barycentric(-sum(map(mul, map(mul, elements, roots), inverses)), point)
    quotients = (
        (element - value) * inverse % FIELD_MODULUS for element, inverse in zip(elements, inverses, strict=True)
    )
    return commit_without_setup({at: quotient.to_bytes(32, "big") for at, quotient in enumerate(quotients)})


def verify_proof(blob: bytes, commitment: bytes, proof: bytes) -> bool:
    """Whether the proof shows that the blob has the commitment (4 ms if few elements are not zero).

    False for malformed input."""
    if setup_pays():
        return verify_proofs([blob], [commitment], [proof])
    if len(blob) != BLOB_SIZE:
        return False
    elements = list(_elements(blob))
    if any(element >= FIELD_MODULUS for _, element in elements):
        return False
    point = _challenge(blob, commitment)
    return verify_opening(commitment, point, _value_at(elements, point), proof)


def verify_opening(commitment: bytes, point: int, value: int, proof: bytes) -> bool:
    """Whether the proof shows that the polynomial with the commitment has the value at the point.

    Value and point are below the field modulus; False for malformed points of the curve."""
    try:
        committed, quotient = (G1Point.from_compressed_bytes(item) for item in (commitment, proof))
    except (ValueError, TypeError):
        return False
    # The library takes any coordinate with the flag of the point at infinity.
    if bytes(committed.to_compressed_bytes()) != commitment or bytes(quotient.to_compressed_bytes()) != proof:
        return False
    remainder = committed - G1Point() * _scalar(value)
    divisor = _tau() - G2Point() * _scalar(point)
    return bool(GT.multi_pairing([remainder, quotient], [-G2Point(), divisor]) == GT.one())


def _challenge(blob: bytes, commitment: bytes) -> int:
    """Return the point at which the polynomial is opened.

    That it is a root of unity is as unlikely as to guess a key."""
    return int.from_bytes(sha256(_CHALLENGE_DOMAIN + blob + commitment).digest(), "big") % FIELD_MODULUS


def _elements(blob: bytes) -> Iterable[tuple[int, int]]:
    """Index and value of the elements that are not zero."""
    for at in range(ELEMENTS):
        if element := int.from_bytes(blob[32 * at : 32 * at + 32], "big"):
            yield at, element


def _value_at(elements: Iterable[tuple[int, int]], point: int) -> int:
    """Return the value of the blob's polynomial, by the barycentric formula."""
    roots = roots_of_unity()
    terms = [(element * roots[at], point - roots[at]) for at, element in elements]
    inverses = _inverses([divisor % FIELD_MODULUS for _, divisor in terms])
    return _barycentric(sum(dividend * inverse for (dividend, _), inverse in zip(terms, inverses, strict=True)), point)


def _barycentric(total: int, point: int) -> int:
    """Return the value at the point, of the sum over the roots of element times root by point less root."""
    return total * (pow(point, ELEMENTS, FIELD_MODULUS) - 1) * pow(ELEMENTS, -1, FIELD_MODULUS) % FIELD_MODULUS


def _inverses(values: Sequence[int]) -> list[int]:
    """Return the inverses of values that are not zero, with one inversion for all."""
    products = [1]
    for value in values:
        products.append(products[-1] * value % FIELD_MODULUS)
    inverse = pow(products.pop(), -1, FIELD_MODULUS)
    result = []
    for value, product in zip(reversed(values), reversed(products), strict=True):
        result.append(inverse * product % FIELD_MODULUS)
        inverse = inverse * value % FIELD_MODULUS
    return result[::-1]


def _scalar(number: int) -> Scalar:
    return Scalar.from_le_bytes(number.to_bytes(32, "little"))


@cache
def roots_of_unity() -> list[int]:
    """Return the roots of unity at which a blob's elements are the values of its polynomial."""
    root = pow(_PRIMITIVE_ROOT, (FIELD_MODULUS - 1) // ELEMENTS, FIELD_MODULUS)
    powers = [1]
    while len(powers) < ELEMENTS:
        powers.append(powers[-1] * root % FIELD_MODULUS)
    return bit_reversed(powers)


@cache
def _tau() -> G2Point:
    """Return the secret of the trusted setup, times the generator of G2."""
    return G2Point.from_compressed_bytes_unchecked(bytes.fromhex(SETUP_FILE.read_text().split()[2 + ELEMENTS + 1]))
