"""Recorded blobs have their versioned hashes by every way to verify them, and changed ones by none [BCN13]."""

from collections import Counter
from functools import cache

import ckzg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.blobs import kzg
from tests.support.servers.fake_beacon import KnownBlob

KnownBlobs = tuple[KnownBlob, ...]


def changed(blob: bytes, at: int, bit: int = 1) -> bytes:
    altered = bytearray(blob)
    altered[at] ^= bit
    return bytes(altered)


@pytest.mark.usefixtures("library")
def test_commitments_and_hashes_of_recorded_blobs(recorded_blobs: KnownBlobs) -> None:
    for recorded in recorded_blobs[2:4]:
        assert kzg.blob_to_commitment(recorded.blob) == recorded.commitment
        assert kzg.versioned_hash(recorded.commitment) == recorded.hash


@pytest.mark.usefixtures("library")
def test_many_commitments_at_once(recorded_blobs: KnownBlobs, small_blobs: KnownBlobs) -> None:
    for known in (recorded_blobs, small_blobs):
        blobs, commitments = ([item[part] for item in known] for part in (1, 2))
        assert kzg.verify_commitments(blobs, commitments)
    assert kzg.verify_commitments(blobs[:1], commitments[:1])
    for place in (0, 5):
        altered = [changed(blob, 77) if n == place else blob for n, blob in enumerate(blobs)]
        assert not kzg.verify_commitments(altered, commitments)
    assert not kzg.verify_commitments([*blobs[1:], blobs[0]], commitments)
    assert not kzg.verify_commitments(blobs, [*commitments[:5], b"\xc0" + bytes(47)])
    for malformed in (b"", bytes(48), b"\xff" * 48, commitments[0][:47]):
        assert not kzg.verify_commitments(blobs[:2], [commitments[0], malformed])


@pytest.mark.usefixtures("library")
def test_errors_that_cancel_out_without_factors_are_found(small_blobs: KnownBlobs) -> None:
    first, second = small_blobs[0], small_blobs[1]
    assert first.blob[63] not in (0, 255)
    assert second.blob[63] not in (0, 255)
    up = first.blob[:63] + bytes([first.blob[63] + 1]) + first.blob[64:]
    down = second.blob[:63] + bytes([second.blob[63] - 1]) + second.blob[64:]
    assert not kzg.verify_commitments([up, down], [first.commitment, second.commitment])


@given(st.binary(min_size=1, max_size=200), st.integers(0, kzg.ELEMENTS - 1))
@settings(max_examples=10)
def test_both_libraries_compute_the_same_commitment(content: bytes, at: int) -> None:
    padded = content.ljust(-(-len(content) // 31) * 31, b"\xff")
    elements = [b"\0" + padded[start : start + 31] for start in range(0, len(padded), 31)]
    whole = [bytes(32)] * kzg.ELEMENTS
    for number, element in enumerate(elements):
        whole[(at + number) % kzg.ELEMENTS] = element
    blob = b"".join(whole)
    result = {kzg.blob_to_commitment(blob)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kzg, "setup_pays", lambda: True)
        patch.setattr(kzg, "_FEW_ELEMENTS", 0)
        result.add(kzg.blob_to_commitment(blob))
    assert len(result) == 1


def test_the_setup_is_loaded_once_that_takes_less_than_doing_without(monkeypatch: pytest.MonkeyPatch) -> None:
    size = kzg.ELEMENTS // 4
    used = Counter[str]()
    monkeypatch.setattr(kzg, "_computed", Counter())
    monkeypatch.setattr(kzg, "_ELEMENTS_BEFORE_SETUP", 2 * size)
    monkeypatch.setattr(kzg, "load_setup", cache(lambda: used.update(["setup"])))
    monkeypatch.setattr(ckzg, "blob_to_kzg_commitment", lambda blob, setup: used.update(["blob"]) or bytes(48))
    quarter = size * (bytes(31) + b"\1") + bytes(kzg.BLOB_SIZE - 32 * size)
    for blob in (quarter, bytes(kzg.BLOB_SIZE), quarter):
        kzg.blob_to_commitment(blob)
        assert not used
    for count in (1, 2):
        kzg.blob_to_commitment(quarter)
        assert used == {"setup": 1, "blob": count}


def test_proofs(small_blobs: KnownBlobs) -> None:
    blobs, commitments, proofs = ([known[part] for known in small_blobs] for part in (1, 2, 3))
    assert kzg.verify_proofs(blobs, commitments, proofs)
    assert list(map(kzg.blob_to_commitment, blobs)) == commitments
    blobs, commitments, proofs = blobs[:2], commitments[:2], proofs[:2]
    assert kzg.verify_proofs([], [], [])
    assert not kzg.verify_proofs(blobs, commitments, proofs[::-1])
    assert not kzg.verify_proofs([blobs[0], changed(blobs[1], 77)], commitments, proofs)
    assert not kzg.verify_proofs(blobs, commitments, [proofs[0], bytes(48)])
    assert not kzg.verify_proofs([blobs[0], blobs[1][:-1]], commitments, proofs)
    assert not kzg.verify_proofs(blobs, commitments[:1], proofs)


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
        assert not kzg.verify_commitments([blob], [b"\xc0" + bytes(47)])


def test_sizes_are_not_canonical() -> None:
    for size in (0, 31, kzg.BLOB_SIZE - 1, kzg.BLOB_SIZE + 32):
        assert not kzg.is_canonical(bytes(size))


@settings(max_examples=12)
@given(
    elements=st.lists(
        st.dictionaries(st.integers(0, 4095), st.integers(0, kzg.FIELD_MODULUS - 1), max_size=4), min_size=1, max_size=3
    ),
    factors=st.lists(st.integers(1, (1 << 128) - 1), min_size=3, max_size=3),
)
def test_combining_is_the_sum_of_factor_times_element(elements: list[dict[int, int]], factors: list[int]) -> None:
    blobs = [b"".join(element.get(n, 0).to_bytes(32, "big") for n in range(4096)) for element in elements]
    used = factors[: len(blobs)]
    expected = [
        sum(item.get(n, 0) * factor for item, factor in zip(elements, used, strict=True)) % kzg.FIELD_MODULUS
        for n in range(4096)
    ]
    assert kzg.combine_blobs(blobs, used) == b"".join(number.to_bytes(32, "big") for number in expected)


def test_factors_depend_on_everything(small_blobs: KnownBlobs) -> None:
    blobs = [known.blob for known in small_blobs[:2]]
    commitments = [known.commitment for known in small_blobs[:2]]
    factors = kzg.combination_factors(blobs, commitments)
    assert factors == kzg.combination_factors(blobs, commitments)
    assert len({*factors, *kzg.combination_factors([changed(blobs[0], 9), blobs[1]], commitments)}) == 4
    assert len({*factors, *kzg.combination_factors(blobs, commitments[::-1])}) == 4
    assert all(factor & 1 and factor < 1 << 128 for factor in factors)
