"""The directory store of kona-host: keys, files, and what a value is compared with [WIT1 to WIT4]."""

import errno
import os
from hashlib import sha256
from pathlib import Path

import pytest

from rollup_node.stages.blobs.kzg import ELEMENTS, FIELD_MODULUS
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.witness import preimages
from rollup_node.tools.witness.preimages import (
    KeyType,
    PreimageFolder,
    WitnessError,
    blob_keys,
    blob_preimages,
    hashed_preimages,
    preimage_key,
)

COMMITMENT = b"\xc0" + bytes(47)


@pytest.fixture
def store(tmp_path: Path) -> PreimageFolder:
    result = PreimageFolder(tmp_path / "store")
    result.create()
    return result


def test_the_store_has_the_layout_of_kona_host(store: PreimageFolder) -> None:
    store.put_hashed(b"value")
    store.put_local(5, b"\0\1")
    store.put({preimage_key(KeyType.SHA256, sha256(COMMITMENT).digest()): COMMITMENT})
    digest, commitment = keccak256(b"value").hex(), sha256(COMMITMENT).hexdigest()
    files = {str(path.relative_to(store.path)): path.read_text() for path in store.path.rglob("*") if path.is_file()}
    assert files == {
        "kvformat": "directory",
        f"02{digest[2:4]}/{digest[4:]}.txt": b"value".hex(),
        f"0100/{'0' * 59}5.txt": "0001",
        f"04{commitment[2:4]}/{commitment[4:]}.txt": COMMITMENT.hex(),
    }
    assert store.count() == 3


@pytest.mark.parametrize("value", [b"value", bytes(32)])
def test_a_value_that_a_killed_worker_has_begun_is_written_whole(store: PreimageFolder, value: bytes) -> None:
    store.put_hashed(value)
    (path,) = store.path.glob("02*/*.txt")
    path.write_text("00")
    store.put_hashed(value)
    assert (store.hashed(keccak256(value), "it"), store.count()) == (value, 1)


def test_a_value_is_removed_with_its_folder(store: PreimageFolder) -> None:
    (key,) = preimages = hashed_preimages({keccak256(b"value"): b"value"})
    store.put(preimages)
    for _ in range(2):
        store.remove(key)
        assert [path.name for path in store.path.iterdir()] == ["kvformat"]


def test_a_missing_and_an_altered_value_are_named(store: PreimageFolder) -> None:
    digest = keccak256(b"value")
    with pytest.raises(WitnessError, match=rf"^the witness lacks a node \(keccak 0x{digest.hex()}, 02"):
        store.hashed(digest, "a node")
    store.put_hashed(b"value")
    (path,) = store.path.glob("02*/*.txt")
    for content in (b"76616c7566", b"76616c756", b"\xff\xfe", b"not hex"):
        path.write_bytes(content)
        with pytest.raises(WitnessError, match=r"^the witness has another value for a node \(keccak 0x"):
            store.hashed(digest, "a node")
    path.unlink()
    path.mkdir()
    with pytest.raises(WitnessError, match="but it cannot be read: Is a directory"):
        store.hashed(digest, "a node")


def test_a_value_has_a_bound(store: PreimageFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_hashed(bytes(11))
    monkeypatch.setattr(preimages, "MAX_BYTES", 10)
    with pytest.raises(WitnessError, match="has another value"):
        store.hashed(keccak256(bytes(11)), "a node")


@pytest.mark.parametrize("code", [0, errno.EMLINK])
def test_elements_of_zero_are_links_where_the_file_system_has_them(
    code: int, store: PreimageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(source: str, target: str) -> None:
        raise OSError(code, os.strerror(code))

    if code:
        monkeypatch.setattr(os, "link", refuses)
    blob = b"\x01" * 32 * 4000 + bytes(32 * 96)
    store.put(blob_preimages(COMMITMENT, blob, b"proof"))
    store.put(blob_preimages(COMMITMENT, blob, b"proof"))
    assert store.count() == ELEMENTS + 2
    assert store.blob(b"\x01" + sha256(COMMITMENT).digest()[1:], "blob 0") == (blob, COMMITMENT, b"proof")
    links = [path.stat().st_nlink for path in store.path.glob("05*/*.txt") if path.read_text() == "00" * 32]
    assert links == [1 if code else 96] * 96


def test_the_elements_of_a_blob_are_kept_by_the_roots_of_unity() -> None:
    """In the order of reversed bits: the first is 1, the second -1; and 4096 behind the head of the last [WIT3]."""
    keys = blob_keys(COMMITMENT)
    assert len(set(keys)) == ELEMENTS + 1
    assert keys[0] == keccak256(COMMITMENT + (1).to_bytes(32, "big"))
    assert keys[1] == keccak256(COMMITMENT + (FIELD_MODULUS - 1).to_bytes(32, "big"))
    # The generator of the subgroup of order 2^32 in EIP-4844's libraries.
    root = pow(10238227357739495823651030575849232062558860180284477541189508159991286009131, 1 << 20, FIELD_MODULUS)
    last = pow(root, ELEMENTS - 1, FIELD_MODULUS).to_bytes(32, "big")
    assert keys[-2] == keccak256(COMMITMENT + last)
    assert keys[-1] == keccak256(COMMITMENT + last[:24] + ELEMENTS.to_bytes(8, "big"))


def test_a_blob_comes_back_whole(store: PreimageFolder) -> None:
    blob = bytes(range(32)) * ELEMENTS
    versioned = b"\x01" + sha256(COMMITMENT).digest()[1:]
    store.put(blob_preimages(COMMITMENT, blob, b"proof"))
    assert store.blob(versioned, "blob 0") == (blob, COMMITMENT, b"proof")
    element = preimage_key(KeyType.BLOB, blob_keys(COMMITMENT)[7]).hex()
    path = store.path / element[:4] / f"{element[4:]}.txt"
    path.write_text("00")
    with pytest.raises(WitnessError, match="blob 0 has an element that is not 32 bytes long"):
        store.blob(versioned, "blob 0")
    path.unlink()
    with pytest.raises(WitnessError, match="the witness lacks element 7 of blob 0"):
        store.blob(versioned, "blob 0")
    store.put({preimage_key(KeyType.SHA256, sha256(b"short").digest()): b"short"})
    with pytest.raises(WitnessError, match="the commitment of blob 1 has 5 bytes"):
        store.blob(b"\x01" + sha256(b"short").digest()[1:], "blob 1")
