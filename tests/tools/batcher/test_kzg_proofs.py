"""Proofs made without the set-up of ckzg are those that ckzg makes, and are verified as by ckzg."""

import ckzg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.blobs import kzg
from rollup_node.tools.batcher.kzg_proofs import compute_proof, verify_opening, verify_proof

INFINITY = b"\xc0" + bytes(47)
ELEMENT = st.integers(1, kzg.FIELD_MODULUS - 1)


def blob_of(elements: dict[int, int]) -> bytes:
    return b"".join(elements.get(at, 0).to_bytes(32, "big") for at in range(kzg.ELEMENTS))


@settings(max_examples=5)
@given(elements=st.dictionaries(st.integers(0, kzg.ELEMENTS - 1), ELEMENT, max_size=5), scale=st.integers(1, 255))
def test_as_by_ckzg(elements: dict[int, int], scale: int) -> None:
    blob = blob_of(elements)
    commitment = kzg.blob_to_commitment(blob)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kzg, "setup_pays", lambda: False)
        patch.setattr("rollup_node.tools.batcher.kzg_proofs.setup_pays", lambda: False)
        proof = compute_proof(blob, commitment)
    assert proof == compute_proof_of_ckzg(blob, commitment)
    assert verify_proof(blob, commitment, proof)
    changed = blob_of(elements | {scale: 1 + elements.get(scale, 0)})
    for offered in ((changed, commitment, proof), (blob, kzg.blob_to_commitment(changed), proof)):
        assert not verify_proof(*offered) and not kzg.verify_proofs(*([each] for each in offered))


def test_an_opening_as_by_ckzg() -> None:
    blob, point = blob_of({1: 2, 9: 3}), 7
    commitment = kzg.blob_to_commitment(blob)
    proof, value = ckzg.compute_kzg_proof(blob, point.to_bytes(32, "big"), kzg.load_setup())
    value = int.from_bytes(value, "big")
    assert verify_opening(commitment, point, value, proof)
    for offered in ((commitment, 8, value, proof), (commitment, 7, value ^ 1, proof), (proof, 7, value, commitment)):
        assert not verify_opening(*offered)
    for malformed in (b"", bytes(48), commitment[:47]):
        assert not verify_opening(malformed, point, value, proof)
        assert not verify_opening(commitment, point, value, malformed)


def compute_proof_of_ckzg(blob: bytes, commitment: bytes) -> bytes:
    return bytes(ckzg.compute_blob_kzg_proof(blob, commitment, kzg.load_setup()))


def test_with_the_setup_of_ckzg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollup_node.tools.batcher.kzg_proofs.setup_pays", lambda: True)
    blob = blob_of({7: 5})
    commitment = kzg.blob_to_commitment(blob)
    assert verify_proof(blob, commitment, compute_proof(blob, commitment))


def test_malformed_input() -> None:
    blob = blob_of({3: 9})
    commitment = kzg.blob_to_commitment(blob)
    proof = compute_proof(blob, commitment)
    for size in (0, kzg.BLOB_SIZE - 1, kzg.BLOB_SIZE + 32):
        assert not verify_proof(bytes(size), commitment, proof)
    assert not verify_proof(kzg.FIELD_MODULUS.to_bytes(32, "big") + blob[32:], commitment, proof)
    for point in (b"", bytes(48), b"\xff" * 48, commitment[:47]):
        assert not verify_proof(blob, point, proof) and not verify_proof(blob, commitment, point)
    assert not verify_proof(blob, commitment, INFINITY)
    assert verify_proof(bytes(kzg.BLOB_SIZE), INFINITY, INFINITY)
