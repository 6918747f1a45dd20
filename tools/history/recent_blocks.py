"""The last L2 blocks that a history without an L2 source has derived: span batches that overlap them are compared with
them, also those of the next range."""

from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rollup_node.stages.protocol.types import L2BlockContent

MAX_BLOCKS, MAX_BYTES = 10_000, 64 << 20
"""Blocks, and bytes of their transactions, that are kept."""
MAX_FILE_BYTES = MAX_BYTES + 256 * MAX_BLOCKS + (16 << 20)
"""More than a file of so many blocks and bytes has."""
_DECODER = msgspec.msgpack.Decoder(tuple[L2BlockContent, ...])


class RecentBlocks:
    """Blocks by number, the oldest of which leave when there are too many."""

    def __init__(self, blocks: Iterable[L2BlockContent] = ()) -> None:
        self._blocks: OrderedDict[int, L2BlockContent] = OrderedDict()
        self._bytes = 0
        for each in blocks:
            self.add(each)

    def add(self, block: L2BlockContent) -> None:
        """Adds a block, the newest; one of a number that is there stays as it is."""
        if block.ref.number in self._blocks:
            return
        self._blocks[block.ref.number] = block
        self._bytes += _size(block)
        while self._bytes > MAX_BYTES or len(self._blocks) > MAX_BLOCKS:
            _, oldest = self._blocks.popitem(last=False)
            self._bytes -= _size(oldest)

    def get(self, number: int) -> L2BlockContent | None:
        """The block of a number."""
        return self._blocks.get(number)

    def write(self, path: Path) -> None:
        """Writes the blocks into a file. Raises OSError."""
        path.write_bytes(msgspec.msgpack.encode(tuple(self._blocks.values())))


def read_blocks(path: Path) -> RecentBlocks:
    """The blocks of a file. Raises OSError, and ValueError for a file of anything else."""
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
    return RecentBlocks(_DECODER.decode(data))


def _size(block: L2BlockContent) -> int:
    return sum(map(len, block.transactions))
