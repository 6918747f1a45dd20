"""Encryption of messages: what does not match is not decrypted."""

from rollup_node.stages.p2p.discv5 import encryption


def test_decryption_fails_when_anything_differs() -> None:
    key, nonce, plaintext, authenticated_data = bytes(16), bytes(12), b"message", b"header"
    ciphertext = encryption.encrypt(key, nonce, plaintext, authenticated_data)
    assert encryption.decrypt(key, nonce, ciphertext, authenticated_data) == plaintext
    assert encryption.decrypt(bytes(15) + b"\1", nonce, ciphertext, authenticated_data) is None
    assert encryption.decrypt(key, bytes(11) + b"\1", ciphertext, authenticated_data) is None
    assert encryption.decrypt(key, nonce, ciphertext, b"other") is None
    assert encryption.decrypt(key, nonce, ciphertext[:-1], authenticated_data) is None
    assert encryption.decrypt(key, nonce, b"", authenticated_data) is None
