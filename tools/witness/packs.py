"""What ranges have read: its preimages in the store of the witness, and packs, one file for each block or blob.

Workers share a folder of packs, with the store beside it. Packs are not for others: they say what the store has of a
block, so that nothing stays in it that was read ahead."""

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import UNKNOWN_HASH, BlockId, Hash
from rollup_node.tools.witness.preimages import PreimageFolder, WitnessError

T = TypeVar("T")
_numbers = count()
_STORED = ("l1-", "receipts-", "blob-")


class StoredPack(msgspec.Struct, frozen=True, array_like=True):
    """The keys of what is in the store of an L1 block, of its receipts or of a blob.

    Of a block also its parent, whether it has receipts, and the hashes of the blobs of its inbox transactions."""

    keys: tuple[bytes, ...]
    parent: Hash = UNKNOWN_HASH
    has_receipts: bool = False
    blobs: tuple[Hash, ...] = ()


class L2Pack(msgspec.Struct, frozen=True, array_like=True):
    """An L2 block: its hash, the RLP of its header, and its transactions."""

    hash: Hash
    header: bytes
    transactions: tuple[bytes, ...]


class RangeResult(msgspec.Struct, frozen=True, array_like=True):
    """A range that is derived: L1 is read from `base` to `head`.

    `agreed` and `claimed` are the output preimages of its safe head and its last block; empty where the L2 source
    cannot tell."""

    base: BlockId
    head: BlockId
    agreed: bytes
    claimed: bytes


class PackFolder:
    """Packs by the name of what they hold, and the `store` beside them.

    Methods raise WitnessError for a pack that is unreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = PreimageFolder(path.with_name("store"))

    def create(self) -> None:
        """Create the folder and the store. Raises OSError."""
        self.path.mkdir(parents=True)
        self.store.create()

    def has(self, name: str) -> bool:
        """Whether there is such a pack."""
        return (self.path / name).exists()

    def put(self, name: str, pack: Any, preimages: Mapping[bytes, bytes] | None = None) -> None:
        """Write a pack, complete or not at all, when `preimages` are in the store. Raises CriticalError.

        Until then it has a temporary name, by which `sweep` knows what a worker that was killed has written."""
        temporary = self.path / f".{name}.{os.uname().nodename}.{os.getpid()}.{next(_numbers)}"
        try:
            temporary.write_bytes(msgspec.msgpack.encode(pack))
            self.store.put(preimages or {})
            os.replace(temporary, self.path / name)
        except OSError as error:
            raise CriticalError(f"cannot write {self.path.parent}: {error.strerror}", Code.FILE) from None

    def put_stored(self, name: str, preimages: Mapping[bytes, bytes], **fields: Any) -> None:
        """Write preimages to the store, and their pack, unless it is there. Raises CriticalError."""
        if not self.has(name):
            self.put(name, StoredPack(tuple(preimages), **fields), preimages)

    def get(self, name: str, shape: type[T], what: str) -> T:
        """Return a pack; `what` says for people what it is. Raises WitnessError where there is none."""
        try:
            return msgspec.msgpack.decode((self.path / name).read_bytes(), type=shape)
        except FileNotFoundError:
            raise WitnessError(f"{what} was not read: L1 may have been reorganized meanwhile: run it again") from None
        except msgspec.DecodeError as error:
            raise WitnessError(f"the pack of {what} is damaged ({error}): run it again") from None

    def sweep(self, used: set[str]) -> None:
        """Remove from the store what only other packs than the used ones say. Raises OSError."""
        unused: set[bytes] = set()
        for name in os.listdir(self.path):
            if name not in used and name.removeprefix(".").startswith(_STORED):
                try:
                    unused.update(self.get(name, StoredPack, name).keys)
                except WitnessError:
                    # It was cut while it was written, before its preimages were.
                    continue
        for name in used if unused else ():
            unused.difference_update(self.get(name, StoredPack, name).keys)
        for key in unused:
            self.store.remove(key)


def l1_name(block_hash: Hash) -> str:
    """Return the name of the pack of an L1 block."""
    return f"l1-{block_hash.hex()}"


def receipts_name(block_hash: Hash) -> str:
    """Return the name of the pack of a block's receipts."""
    return f"receipts-{block_hash.hex()}"


def blob_name(versioned_hash: Hash) -> str:
    """Return the name of the pack of a blob."""
    return f"blob-{versioned_hash.hex()}"


def l2_name(number: int) -> str:
    """Return the name of the pack of an L2 block."""
    return f"l2-{number}"


def execution_name(number: int) -> str:
    """Return the name of the pack with the preimages that executing an L2 block reads."""
    return f"execution-{number}"


def base_name(first: int, last: int) -> str:
    """Return the name of the pack with the first L1 block that a range reads."""
    return f"base-{first}-{last}"


def range_name(first: int, last: int) -> str:
    """Return the name of the pack that says that a range is complete."""
    return f"range-{first}-{last}"
