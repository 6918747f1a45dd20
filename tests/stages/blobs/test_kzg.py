"""KZG: real blobs belong to their hashes by every way of checking, changed ones by none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.blobs import kzg


def changed(blob: bytes, at: int, bit: int = 1) -> bytes:
    spoiled = bytearray(blob)
    spoiled[at] ^= bit
    return bytes(spoiled)


def test_commitments_and_hashes_of_real_blobs(real_blobs: Any) -> None:
    for real in real_blobs:
        assert kzg.commitment_of(real.blob) == real.commitment
        assert kzg.versioned_hash(real.commitment) == real.hash


def test_many_commitments_at_once(real_blobs: Any) -> None:
    blobs = [real.blob for real in real_blobs]
    commitments = [real.commitment for real in real_blobs]
    assert kzg.commitments_hold(blobs, commitments)
    assert kzg.commitments_hold(blobs[:1], commitments[:1])
    for place in (0, 5):
        spoiled = [changed(blob, 77) if n == place else blob for n, blob in enumerate(blobs)]
        assert not kzg.commitments_hold(spoiled, commitments)
    assert not kzg.commitments_hold([*blobs[1:], blobs[0]], commitments)
    assert not kzg.commitments_hold(blobs, [*commitments[:5], b"\xc0" + bytes(47)])
    for malformed in (b"", bytes(48), b"\xff" * 48, commitments[0][:47]):
        assert not kzg.commitments_hold(blobs[:2], [commitments[0], malformed])


def test_errors_that_cancel_out_without_factors_are_found(real_blobs: Any) -> None:
    first, second = real_blobs[0], real_blobs[1]
    assert first.blob[63] not in (0, 255)
    assert second.blob[63] not in (0, 255)
    up = first.blob[:63] + bytes([first.blob[63] + 1]) + first.blob[64:]
    down = second.blob[:63] + bytes([second.blob[63] - 1]) + second.blob[64:]
    assert not kzg.commitments_hold([up, down], [first.commitment, second.commitment])


def test_proofs(real_blobs: Any) -> None:
    import ckzg

    blobs = [real.blob for real in real_blobs[:2]]
    commitments = [real.commitment for real in real_blobs[:2]]
    proofs = [
        bytes(ckzg.compute_blob_kzg_proof(blob, commitment, kzg.load_setup()))
        for blob, commitment in zip(blobs, commitments, strict=True)
    ]
    assert kzg.proofs_hold(blobs, commitments, proofs)
    assert kzg.proofs_hold([], [], [])
    assert not kzg.proofs_hold(blobs, commitments, proofs[::-1])
    assert not kzg.proofs_hold([blobs[0], changed(blobs[1], 77)], commitments, proofs)
    assert not kzg.proofs_hold(blobs, commitments, [proofs[0], bytes(48)])
    assert not kzg.proofs_hold([blobs[0], blobs[1][:-1]], commitments, proofs)
    assert not kzg.proofs_hold(blobs, commitments[:1], proofs)


@pytest.mark.parametrize(
    ("element", "canonical"),
    [
        (0, True),
        (kzg.FIELD_MODULUS - 1, True),
        (kzg.FIELD_MODULUS, False),
        ((1 << 256) - 1, False),
        (0x73 << 248, True),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 4095])
def test_canonical_elements(element: int, canonical: bool, place: int) -> None:
    blob = bytes(32 * place) + element.to_bytes(32, "big") + bytes(32 * (4095 - place))
    assert kzg.is_canonical(blob) is canonical
    if not canonical:
        assert not kzg.commitments_hold([blob], [b"\xc0" + bytes(47)])


def test_sizes_are_not_canonical() -> None:
    for size in (0, 31, kzg.BLOB_SIZE - 1, kzg.BLOB_SIZE + 32):
        assert not kzg.is_canonical(bytes(size))


@settings(max_examples=12)
@given(
    elements=st.lists(
        st.dictionaries(st.integers(0, 4095), st.integers(0, kzg.FIELD_MODULUS - 1), max_size=4),
        min_size=1,
        max_size=3,
    ),
    factors=st.lists(st.integers(1, (1 << 128) - 1), min_size=3, max_size=3),
)
def test_combining_is_the_sum_of_factor_times_element(elements: list[dict[int, int]], factors: list[int]) -> None:
    blobs = [b"".join(each.get(n, 0).to_bytes(32, "big") for n in range(4096)) for each in elements]
    used = factors[: len(blobs)]
    expected = [
        sum(each.get(n, 0) * factor for each, factor in zip(elements, used, strict=True)) % kzg.FIELD_MODULUS
        for n in range(4096)
    ]
    assert kzg._combine(blobs, used) == b"".join(number.to_bytes(32, "big") for number in expected)


def test_factors_depend_on_everything(real_blobs: Any) -> None:
    blobs = [real.blob for real in real_blobs[:2]]
    commitments = [real.commitment for real in real_blobs[:2]]
    factors = kzg._factors(blobs, commitments)
    assert factors == kzg._factors(blobs, commitments)
    assert len({*factors, *kzg._factors([changed(blobs[0], 9), blobs[1]], commitments)}) == 4
    assert len({*factors, *kzg._factors(blobs, commitments[::-1])}) == 4
    assert all(factor & 1 and factor < 1 << 128 for factor in factors)
