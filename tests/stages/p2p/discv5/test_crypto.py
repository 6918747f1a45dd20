"""The identity scheme: invalid keys and signatures."""

import pytest

from rollup_node.stages.p2p.discv5 import crypto
from rollup_node.stages.p2p.discv5.crypto import CryptoError
from tests.support.p2p.discv5_nodes import secret_of

SECRET = secret_of("crypto")
KEY = crypto.public_key(SECRET)
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@pytest.mark.parametrize("secret", [bytes(32), ORDER.to_bytes(32, "big"), b"", bytes(33)])
def test_malformed_private_keys_are_rejected(secret: bytes) -> None:
    with pytest.raises(CryptoError):
        crypto.public_key(secret)


@pytest.mark.parametrize("key", [b"", bytes(33), b"\2" + b"\xff" * 32, KEY[:32]])
def test_malformed_public_keys_are_rejected(key: bytes) -> None:
    for function in (crypto.node_id, lambda point: crypto.ecdh(point, SECRET), crypto.compress_public_key):
        with pytest.raises(CryptoError):
            function(key)
    assert not crypto.verify(key, bytes(64), bytes(32))


def test_ecdh_is_the_same_from_both_ends() -> None:
    other = secret_of("other end")
    assert crypto.ecdh(KEY, other) == crypto.ecdh(crypto.public_key(other), SECRET)


def test_signatures() -> None:
    digest = bytes(range(32))
    signature = crypto.sign(SECRET, digest)
    assert crypto.verify(KEY, signature, digest)
    assert not crypto.verify(KEY, signature, bytes(32))
    assert not crypto.verify(crypto.public_key(secret_of("x")), signature, digest)
    high = signature[:32] + (ORDER - int.from_bytes(signature[32:], "big")).to_bytes(32, "big")
    for wrong in (b"", signature[:63], signature + b"\0", bytes(64), b"\xff" * 64, high):
        assert not crypto.verify(KEY, wrong, digest)
