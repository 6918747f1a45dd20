"""What is kept of a light client, so that a restart needs no new checkpoint [LCP13]."""

from typing import Annotated

import msgspec

from rollup_node.stages.l1.proof import Unproven
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex, to_hex
from rollup_node.stages.protocol.types import Hash

MAX_BYTES = 1 << 21


class StoredRootError(ValueError):
    """A file is not what the node keeps of its light client; the text says why."""


class StoredRoot(msgspec.Struct, frozen=True):
    """The newest proven finalized root of a network, and the checkpoint that it was proven from.

    `unproven` are the blocks in use that were not proven, by L2 chain id."""

    genesis_validators_root: Hash
    checkpoint: Hash
    root: Hash
    slot: int
    unproven: dict[int, Unproven] = {}

    def replaces(self, checkpoint: Hash) -> bool:
        """Whether it was proven from a checkpoint, or is one."""
        return checkpoint in (self.checkpoint, self.root)


_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Unproven(msgspec.Struct):
    first: _Number
    last: _Number
    hash: str
    marks: list[tuple[_Number, str]] = []


class _File(msgspec.Struct, omit_defaults=True):
    genesis_validators_root: str
    checkpoint: str
    root: str
    slot: _Number
    unproven: dict[int, _Unproven] = {}


def encode_stored_root(stored: StoredRoot) -> bytes:
    """Return the content of the file."""
    kept = {rollup: _shown(one) for rollup, one in stored.unproven.items()}
    file = _File(
        to_hex(stored.genesis_validators_root), to_hex(stored.checkpoint), to_hex(stored.root), stored.slot, kept
    )
    return msgspec.json.encode(file) + b"\n"


def decode_stored_root(content: bytes) -> StoredRoot:
    """Return what a file has. Raises StoredRootError."""
    try:
        file: _File = decode_json(content, _File, MAX_BYTES, "it")
        if any(one.first > one.last for one in file.unproven.values()):
            raise StoredRootError("its unproven blocks are not in order")
        kept = {rollup: _read(one) for rollup, one in file.unproven.items()}
        network, checkpoint = hash_from_hex(file.genesis_validators_root), hash_from_hex(file.checkpoint)
        return StoredRoot(network, checkpoint, hash_from_hex(file.root), file.slot, kept)
    except (MalformedJsonError, HexError) as error:
        raise StoredRootError(str(error)) from None


def _shown(one: Unproven) -> _Unproven:
    return _Unproven(one.first, one.last, to_hex(one.hash), [(number, to_hex(value)) for number, value in one.marks])


def _read(one: _Unproven) -> Unproven:
    marks = tuple((number, hash_from_hex(value)) for number, value in one.marks)
    return Unproven(one.first, one.last, hash_from_hex(one.hash), marks)
