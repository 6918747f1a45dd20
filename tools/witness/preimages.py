"""Preimages by key, and the files of kona-host's directory store [WIT1 to WIT4].

A key has 32 bytes: the type, then the last 31 bytes of the digest. Its file is `<4 hex>/<60 hex>.txt`, with the value
in hex; `kvformat` names the format."""

import contextlib
import os
from binascii import hexlify
from collections.abc import Callable, Mapping
from enum import IntEnum
from hashlib import sha256
from pathlib import Path

from rollup_node.node.options.given_files import regular_file
from rollup_node.stages.blobs.kzg import BLOB_SIZE, ELEMENTS, POINT_SIZE
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.batcher.kzg_proofs import roots_of_unity

FORMAT_FILE, FORMAT = "kvformat", "directory"
MAX_BYTES = 32 << 20
"""Bytes of a value: no L1 block or receipt is longer."""
EMPTY_LIST = {EMPTY_ROOT: rlp.EMPTY_STRING}
"""The nodes of the trie of an empty list [WIT2]."""
_ELEMENT = 32
_ZERO = bytes(_ELEMENT)


class KeyType(IntEnum):
    """The first byte of a key."""

    LOCAL = 1
    KECCAK = 2
    SHA256 = 4
    BLOB = 5


_DIGESTS: Mapping[KeyType, Callable[[bytes], bytes]] = {
    KeyType.KECCAK: keccak256,
    KeyType.SHA256: lambda value: sha256(value).digest(),
}


class WitnessError(ValueError):
    """A preimage is missing, altered or malformed; the text names it."""


def preimage_key(kind: KeyType, digest: Hash) -> bytes:
    """Return the key of a digest of 32 bytes."""
    return bytes((kind,)) + digest[1:]


def blob_keys(commitment: bytes) -> list[Hash]:
    """Return the digests by which the elements of a blob are kept, and last that of its KZG proof."""
    places = [root.to_bytes(32, "big") for root in roots_of_unity()]
    # kona-host writes the index of the proof over the last 8 bytes of the last root.
    proof = places[-1][:24] + ELEMENTS.to_bytes(8, "big")
    return [keccak256(commitment + place) for place in (*places, proof)]


def hashed_preimages(values: Mapping[Hash, bytes]) -> dict[bytes, bytes]:
    """Return values by key; they are given by their keccak."""
    return {preimage_key(KeyType.KECCAK, digest): value for digest, value in values.items()}


def blob_preimages(commitment: bytes, blob: bytes, proof: bytes) -> dict[bytes, bytes]:
    """Return a blob's commitment, its elements and its proof by key."""
    parts = (*(blob[at : at + _ELEMENT] for at in range(0, BLOB_SIZE, _ELEMENT)), proof)
    keys = (preimage_key(KeyType.BLOB, digest) for digest in blob_keys(commitment))
    commitment_key = preimage_key(KeyType.SHA256, sha256(commitment).digest())
    return {commitment_key: commitment, **dict(zip(keys, parts, strict=True))}


class PreimageFolder:
    """The store below a folder.

    A value may be written again, by a worker in place of one that was killed: it has the same bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zero = ""

    def create(self) -> None:
        """Create the folder. Raises OSError."""
        self.path.mkdir(parents=True)
        (self.path / FORMAT_FILE).write_text(FORMAT)

    def count(self) -> int:
        """Return the number of values. Raises OSError."""
        return sum(len(files) for folder, _, files in os.walk(self.path) if folder != str(self.path))

    def put(self, preimages: Mapping[bytes, bytes]) -> None:
        """Write values by key. Raises OSError."""
        root = str(self.path)
        for key, value in preimages.items():
            path = f"{root}/{_place(key)}"
            if value != _ZERO or not self._link(path):
                _write(path, hexlify(value))

    def _link(self, path: str) -> bool:
        """Whether the file is now a link to one with the same value, an element of zero: most blobs end in these.

        A link takes a third of the time of a file, and no space."""
        try:
            if self._zero:
                os.link(self._zero, path)
                return True
        except OSError:
            # It is there or its folder is not; or it has as many links as it may have, or the file system knows none.
            pass
        self._zero = path
        return False

    def remove(self, key: bytes) -> None:
        """Remove a value, if it is there. Raises OSError."""
        path = self.path / _place(key)
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()

    def put_hashed(self, value: bytes) -> None:
        """Write a value under its keccak. Raises OSError."""
        self.put(hashed_preimages({keccak256(value): value}))

    def get(self, kind: KeyType, digest: Hash, what: str) -> bytes:
        """Return the value of a key, compared with it; `what` says for people what it is. Raises WitnessError."""
        place = _place(preimage_key(kind, digest))
        text = f"{what} ({kind.name.lower()} {to_hex(digest)}, {place})"
        try:
            with regular_file(self.path / place) as file:
                data = file.read(2 * MAX_BYTES + 1)
        except FileNotFoundError:
            raise WitnessError(f"the witness lacks {text}") from None
        except OSError as error:
            raise WitnessError(f"the witness has {text}, but it cannot be read: {error.strerror}") from None
        try:
            value = bytes.fromhex(data.decode("ascii")) if len(data) <= 2 * MAX_BYTES else None
        except ValueError:
            value = None
        digest_of = _DIGESTS.get(kind)
        if value is None or (digest_of is not None and digest_of(value)[1:] != digest[1:]):
            raise WitnessError(f"the witness has another value for {text}: it is damaged or was altered")
        return value

    def hashed(self, digest: Hash, what: str) -> bytes:
        """Return the value with this keccak. Raises WitnessError."""
        return self.get(KeyType.KECCAK, digest, what)

    def blob(self, versioned_hash: Hash, what: str) -> tuple[bytes, bytes, bytes]:
        """Return a blob, its commitment and its proof, which is for the caller to verify. Raises WitnessError."""
        commitment = self.get(KeyType.SHA256, versioned_hash, f"the commitment of {what}")
        if len(commitment) != POINT_SIZE:
            raise WitnessError(f"the commitment of {what} has {len(commitment)} bytes")
        parts = [
            self.get(KeyType.BLOB, digest, f"element {index} of {what}" if index < ELEMENTS else f"the proof of {what}")
            for index, digest in enumerate(blob_keys(commitment))
        ]
        blob = b"".join(parts[:-1])
        if any(len(part) != _ELEMENT for part in parts[:-1]):
            raise WitnessError(f"{what} has an element that is not {_ELEMENT} bytes long")
        return blob, commitment, parts[-1]

    def local(self, number: int, what: str) -> bytes:
        """Return a boot input. Raises WitnessError."""
        return self.get(KeyType.LOCAL, number.to_bytes(32, "big"), what)

    def put_local(self, number: int, value: bytes) -> None:
        """Write a boot input. Raises OSError."""
        self.put({preimage_key(KeyType.LOCAL, number.to_bytes(32, "big")): value})


def _write(path: str, data: bytes) -> None:
    """Write a file with three system calls, as a witness has ten thousands of files."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = os.open(path, flags, 0o644)
    try:
        done = os.write(file, data)
        while done < len(data):
            done += os.write(file, data[done:])
    finally:
        os.close(file)


def _place(key: bytes) -> str:
    text = key.hex()
    return f"{text[:4]}/{text[4:]}.txt"
