"""Signatures of blocks, and the signers accepted."""

from eth_keys.datatypes import PrivateKey, Signature

from rollup_node.stages.p2p.blocks.signing import (
    LocalSigner,
    UnsafeBlockSigners,
    payload_hash,
    signing_hash,
)
from rollup_node.stages.protocol.secp256k1 import recover_address

A, B, C = b"\xaa" * 20, b"\xbb" * 20, b"\xcc" * 20


def test_sign_and_recover() -> None:
    signer = LocalSigner(b"\x22" * 32)
    signature = signer.sign(10, b"block")
    assert len(signature) == 65 and signature[64] in (0, 1)
    digest = signing_hash(10, payload_hash(b"block"))
    assert recover_address(digest, signature) == signer.address
    key = PrivateKey(b"\x22" * 32)
    assert signer.address == key.public_key.to_canonical_address()
    assert Signature(signature).recover_public_key_from_msg_hash(digest) == key.public_key


def test_only_one_previous_signer_is_accepted() -> None:
    signers = UnsafeBlockSigners()
    for now, address in enumerate((A, B, C)):
        assert signers.update(address, float(now)) and not signers.update(address, now + 0.5)
    assert not signers.accept(A, 3.0) and signers.accept(B, 3.0)
    signers.update(bytes(20), 4.0)
    assert signers.current is None and not signers.accept(C, 4.0)
