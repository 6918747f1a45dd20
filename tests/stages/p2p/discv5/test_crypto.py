"""The identity scheme: invalid keys and signatures."""

import pytest

from rollup_node.stages.p2p.discv5 import crypto
from rollup_node.stages.protocol import secp256k1
from tests.support.p2p.discv5_nodes import secret_of

SECRET = secret_of("crypto")
KEY = secp256k1.public_key(SECRET)
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@pytest.mark.parametrize("key", [b"", bytes(33), b"\2" + b"\xff" * 32, KEY[:32]])
def test_malformed_public_keys_are_rejected(key: bytes) -> None:
    with pytest.raises(ValueError, match="public key"):
        crypto.node_id(key)
    assert not crypto.verify(key, bytes(64), bytes(32))


def test_signatures() -> None:
    digest = bytes(range(32))
    signature = crypto.sign(SECRET, digest)
    assert crypto.verify(KEY, signature, digest)
    assert not crypto.verify(KEY, signature, bytes(32))
    assert not crypto.verify(secp256k1.public_key(secret_of("x")), signature, digest)
    high = signature[:32] + (ORDER - int.from_bytes(signature[32:], "big")).to_bytes(32, "big")
    for wrong in (b"", signature[:63], signature + b"\0", bytes(64), b"\xff" * 64, high):
        assert not crypto.verify(KEY, wrong, digest)
