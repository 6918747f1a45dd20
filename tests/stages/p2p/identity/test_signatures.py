"""Signatures of ECDSA keys, and of keys that are none; `test_peer_id.py` has those of js-libp2p."""

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.identity.peer_id import ECDSA, IdentityError, PublicKey, decode_public_key, peer_id_text
from rollup_node.stages.p2p.identity.signatures import verify

HELLO = b"hello"


def test_ecdsa_keys_verify() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    key = PublicKey(ECDSA, private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    assert verify(key, HELLO, private.sign(HELLO, ec.ECDSA(hashes.SHA256())))
    assert not verify(key, b"other", private.sign(HELLO, ec.ECDSA(hashes.SHA256())))
    assert peer_id_text(key.peer_id).startswith("Qm")


@given(st.integers(0, 5), st.binary(max_size=120), st.binary(max_size=80))
def test_verify_never_raises(key_type: int, data: bytes, signature: bytes) -> None:
    try:
        key = decode_public_key(PublicKey(key_type, data).encode())
    except IdentityError:
        assert key_type > 3
        return
    assert verify(key, HELLO, signature) is False
