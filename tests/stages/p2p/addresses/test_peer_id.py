"""Peer ids and signatures as js-libp2p makes them for the same keys."""

import pytest

from rollup_node.stages.p2p.addresses.peer_id import (
    IdentityError,
    NetworkIdentity,
    decode_public_key,
    extract_public_key,
    node_id,
    parse_peer_id,
    peer_id_text,
    secp256k1_public_key,
)
from rollup_node.stages.p2p.transport.noise import verify_signature

HELLO = b"hello"
SECP256K1 = (
    "16Uiu2HAmEWQnHq2jLKJypwVnVoQeFCULuyop6atvq2eWjYSUjzNi",
    "bafzaajiiaijccay3qtcvm6ysmrajsxj62wvlublf24pbqndajam77hax6xu5lxihr4",
    "08021221031b84c5567b126440995d3ed5aaba0565d71e1834604819ff9c17f5e9d5dd078f",
    "3045022100d13b19c8baa53851839efe1fe790b6f6d51028400902bb79d2fa50c65295e0ed"
    "0220697d0a44907237350d71ab31d6adbc973749cf2c2d1f4096b765c65be58cfca9",
)
ED25519 = (
    "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq",
    "bafzaajaiaejcbajzo4hkq7ixl5lkgvdgyngh5tglrwfjdnhog6rf35qploh4tm4u",
    "080112208139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394",
    "6d8917c1f25b002129e0bc390ec18f58ca859a2f84459deff3151d5bb11dfec5"
    "806f7c321fda77611a59bea4c4f56d8d8813290e85faeb4bda05293c34376d0e",
)
RSA = (
    "QmbWVrabPTgBsaGfSmHKik5unEzCaKpurKinb4osgnivna",
    "bafzbeigdvw5bxzn3x4czx2nvm6cvy252xfcbw43vq6osg42papxcdliy34",
    "080012a60230820122300d06092a864886f70d01010105000382010f003082010a0282010100d9163a4203f8812923a129d88eab7fc100b0"
    "da4ecac9f3c5c35db1a6b9bcb9741cca3110f7d8fc19218ffacdb37c0958bb776a3ecfe14681daacd2fcb477c9da7c5452cefb0b7113e0f1"
    "bba93badd29f2445faab2cefd7144d1783c018d03c00db7fa8b91cfb7682479f03bb621494e024f1b1563d681b4b849b562345896d2969b6"
    "81639e89585c8434399ba0d3aa9f7c475fb4becd2b92ecc27bd4f625027c0e111b05f49f4a46cacf37a33423eb14e72809a251125c2765dd"
    "f3ecb800ca0314e6e707eed9b2d3e3406050f6776ad3eb06bd1405ca718fc30cc306d2eb2491ff6aa9df5626d45d4909b073b35fd7bb6f21"
    "fc1a6fd0f96a35823c7ef264fda30203010001",
    "3703befed28232ffe06129457ed17e515dd830dc41f1dffb7153632fd27839f7a5fd5969617c63b9f8c0b0bd1df95a777126c44db473dd75"
    "80bcb8722797bd46d8acdee5129d7540893cdfe560b65b4ec2d6b1e91a593d394c179d583830f6413d84be143e517ea0c99de1f2d843bd24"
    "230959cf9bc7a465958a5f97aeaa8bcd4c8c052c28741993414e73e588b6aab60946ea64da4a004167204ba21c4100a53fe9e2ef28f1de09"
    "cf0f8fee15e0d7c1f194a7a04d4df208c7c5d9ec507be1c2164db1d3f0954da7d4c1b38558ec5d84e4cf0cc741cfa3daad73eb5c7f1e7168"
    "fc4cae6c95528b312208f883cc5a099a2616a42cd7f295435270822c08a585c0",
)
NODE_ID = "b8a0722ae6cb48cde0b4ae1f1a642f0e3c3af545e7acbd38b07251b3990914f1"


@pytest.mark.parametrize(
    ("text", "cid", "key", "signature"), [SECP256K1, ED25519, RSA], ids=["secp256k1", "ed25519", "rsa"]
)
def test_foreign_keys(text: str, cid: str, key: str, signature: str) -> None:
    public_key = decode_public_key(bytes.fromhex(key))
    assert public_key.encode().hex() == key
    assert peer_id_text(public_key.peer_id) == text
    assert parse_peer_id(text) == parse_peer_id(cid) == public_key.peer_id
    assert verify_signature(public_key, HELLO, bytes.fromhex(signature))
    assert not verify_signature(public_key, b"hello!", bytes.fromhex(signature))
    assert not verify_signature(public_key, HELLO, bytes.fromhex(signature)[:-1] + b"\x00")
    assert not verify_signature(public_key, HELLO, b"")
    assert not verify_signature(public_key, HELLO, bytes(5000))


def test_network_identity() -> None:
    identity = NetworkIdentity(b"\x01" * 32)
    assert peer_id_text(identity.peer_id) == SECP256K1[0]
    assert identity.public_key.encode().hex() == SECP256K1[2]
    assert verify_signature(identity.public_key, HELLO, identity.sign(HELLO))
    assert node_id(identity.public_key.data).hex() == NODE_ID
    assert repr(identity) == f"NetworkIdentity({SECP256K1[0]})"
    assert identity.secret.hex() not in repr(identity)


@pytest.mark.parametrize("secret", [b"", bytes(32), b"\xff" * 32, b"\x01" * 31, b"\x01" * 33])
def test_malformed_secrets_are_rejected(secret: bytes) -> None:
    with pytest.raises(IdentityError):
        NetworkIdentity(secret)


def test_the_key_in_a_peer_id() -> None:
    assert extract_public_key(parse_peer_id(ED25519[0])) == decode_public_key(bytes.fromhex(ED25519[2]))
    assert extract_public_key(parse_peer_id(RSA[0])) is None
    assert extract_public_key(b"\x00\x02ab") is None


@pytest.mark.parametrize("text", ["", "Qm", "0" * 46, "b" + "a" * 50, "16Uiu2HA", "z" * 200, "bafybeig", "bafzaaj1"])
def test_malformed_peer_ids_are_rejected(text: str) -> None:
    with pytest.raises(IdentityError):
        parse_peer_id(text)


@pytest.mark.parametrize("point", [b"", b"\x02" * 32, b"\x04" + b"\x01" * 64, b"\x07" * 33])
def test_points_off_the_curve_are_rejected(point: bytes) -> None:
    with pytest.raises(IdentityError):
        secp256k1_public_key(point)
