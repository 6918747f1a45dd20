"""What ranges have read, in one file for each block or blob: workers share a folder of them, and one of them wins.

Packs are not for others: the store is made of them, in order and without what was read ahead."""

import os
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rollup_node.stages.l1.verify import VerifiedBlock
from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.tools.witness.preimages import WitnessError

T = TypeVar("T")
_numbers = count()


class L1Pack(msgspec.Struct, frozen=True, array_like=True):
    """An L1 block: the RLP of its header, and the nodes of the trie of its transactions.

    `verified` has the hashes of all transactions."""

    verified: VerifiedBlock
    parent: Hash
    header: bytes
    nodes: tuple[bytes, ...]


class BlobPack(msgspec.Struct, frozen=True, array_like=True):
    """A blob of 131,072 bytes with its commitment and KZG proof."""

    blob: bytes
    commitment: bytes
    proof: bytes


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
    """Packs by the name of what they hold. Methods raise OSError, and WitnessError for a pack that is unreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, name: str) -> bool:
        """Whether there is such a pack."""
        return (self.path / name).exists()

    def put(self, name: str, pack: Any) -> None:
        """Write a pack, complete or not at all."""
        temporary = self.path / f".{name}.{os.uname().nodename}.{os.getpid()}.{next(_numbers)}"
        temporary.write_bytes(msgspec.msgpack.encode(pack))
        os.replace(temporary, self.path / name)

    def get(self, name: str, shape: type[T], what: str) -> T:
        """Return a pack; `what` says for people what it is. Raises WitnessError where there is none."""
        try:
            return msgspec.msgpack.decode((self.path / name).read_bytes(), type=shape)
        except FileNotFoundError:
            raise WitnessError(f"{what} was not read: L1 may have been reorganized meanwhile: run it again") from None
        except msgspec.DecodeError as error:
            raise WitnessError(f"the pack of {what} is damaged ({error}): run it again") from None


def l1_name(block_hash: Hash) -> str:
    """Return the name of the pack of an L1 block."""
    return f"l1-{block_hash.hex()}"


def receipts_name(block_hash: Hash) -> str:
    """Return the name of the pack with the nodes of the trie of a block's receipts."""
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


def range_name(first: int, last: int) -> str:
    """Return the name of the pack that says that a range is complete."""
    return f"range-{first}-{last}"
