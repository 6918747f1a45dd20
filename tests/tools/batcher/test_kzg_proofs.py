"""Proofs made without the set-up of ckzg are those that ckzg makes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.blobs import kzg
from rollup_node.tools.batcher import kzg_proofs
from rollup_node.tools.batcher.kzg_proofs import compute_proof, verify_opening, verify_proof

INFINITY = b"\xc0" + bytes(47)
ELEMENT = st.integers(1, kzg.FIELD_MODULUS - 1)
OF_CKZG = [
    (
        {0: 1},
        "a0413c0dcafec6dbc9f47d66785cf1e8c981044f7d13cfe3e4fcbb71b5408dfde6312493cb3c1d30516cb3ca88c03654",
        "9231985ff7ec11bd4b70e443399ab3fc60f17ce4253a8934f1ca812c3054303aa670dd262c9913b9095bbf215c8803a6",
    ),
    (
        {1: 2, 9: 3},
        "b3dd5aadd10930ead584c1eb0d04a3d97517ca72dde18b453db63edafef6b853d5c5bb54e2fa0b28b8caa81e1b4158aa",
        "a7a468b873dd4ddbcbe9a461f5f5cd3cc5fe8ff82b7835d814373d6b5b1eca44e33e8d876e32f112f5d15f554999a5f2",
    ),
    (
        {5: kzg.FIELD_MODULUS - 1, 2048: 2**200 + 5, 4095: 7},
        "b07a69cb631fffc723fa3dcc9a30f61a81d1d4c04ba7364835572f7afb2b5131ddbd5816eefdbad480627e18e2634011",
        "ba008bb945739c6ea915bd43dcce2d63ab8a027536ec1e6d6e674622b37ad7f12845c8ce80bf849586ad5fc6ab7e9930",
    ),
]
"""Elements, and their commitment and proof by ckzg 2.1."""
OPENED_AT_7 = (
    0x2663D857212A4F51C1544983C09E076E4E068FD06E1BE7FCE7DAE4E183A5959B,
    "b6b629f61998a93ce6251519a1c6c79638fb707906d6eb5047e0d64e6a0caaa0e74ad768abb294865124c70b847757af",
)
"""Value and proof of the second of them at the point 7, by ckzg."""


@pytest.fixture(autouse=True)
def without_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have loaded the set-up."""
    for module in (kzg, kzg_proofs):
        monkeypatch.setattr(module, "setup_pays", lambda: False)


def blob_of(elements: dict[int, int]) -> bytes:
    return b"".join(elements.get(at, 0).to_bytes(32, "big") for at in range(kzg.ELEMENTS))


@pytest.mark.parametrize(("elements", "commitment", "proof"), OF_CKZG)
def test_as_by_ckzg(elements: dict[int, int], commitment: str, proof: str) -> None:
    blob = blob_of(elements)
    assert kzg.blob_to_commitment(blob).hex() == commitment
    assert compute_proof(blob, bytes.fromhex(commitment)).hex() == proof
    assert verify_proof(blob, bytes.fromhex(commitment), bytes.fromhex(proof))


@settings(max_examples=5)
@given(elements=st.dictionaries(st.integers(0, kzg.ELEMENTS - 1), ELEMENT, max_size=5), at=st.integers(0, 255))
def test_a_proof_is_of_its_blob_and_commitment(elements: dict[int, int], at: int) -> None:
    blob = blob_of(elements)
    commitment = kzg.blob_to_commitment(blob)
    proof = compute_proof(blob, commitment)
    assert verify_proof(blob, commitment, proof)
    changed = blob_of(elements | {at: (1 + elements.get(at, 0)) % kzg.FIELD_MODULUS})
    assert not verify_proof(changed, commitment, proof)
    assert not verify_proof(blob, kzg.blob_to_commitment(changed), proof)


def test_an_opening_as_by_ckzg() -> None:
    commitment = bytes.fromhex(OF_CKZG[1][1])
    value, proof = OPENED_AT_7[0], bytes.fromhex(OPENED_AT_7[1])
    assert verify_opening(commitment, 7, value, proof)
    for offered in ((commitment, 8, value, proof), (commitment, 7, value ^ 1, proof), (proof, 7, value, commitment)):
        assert not verify_opening(*offered)
    for malformed in (b"", bytes(48), commitment[:47]):
        assert not verify_opening(malformed, 7, value, proof)
        assert not verify_opening(commitment, 7, value, malformed)


def test_by_ckzg_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kzg_proofs, "setup_pays", lambda: True)
    elements, commitment, proof = OF_CKZG[1]
    assert compute_proof(blob_of(elements), bytes.fromhex(commitment)).hex() == proof
    for offered, holds in ((proof, True), (OF_CKZG[0][2], False)):
        assert verify_proof(blob_of(elements), bytes.fromhex(commitment), bytes.fromhex(offered)) is holds


@pytest.mark.parametrize("infinity", [b"\xc0" + b"\x01" * 47, b"\xe0" + bytes(47), b"\xdf" + b"\xff" * 47])
def test_the_point_at_infinity_has_one_encoding(infinity: bytes) -> None:
    assert verify_opening(INFINITY, 7, 0, INFINITY)
    assert not verify_opening(infinity, 7, 0, INFINITY)
    assert not verify_opening(INFINITY, 7, 0, infinity)


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
