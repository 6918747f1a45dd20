"""Which L1 transactions the frames of a channel came in."""

from collections.abc import Iterable, Iterator, Sequence

from rollup_node.stages.derivation.codec.frames import parse_frames
from rollup_node.stages.derivation.pipeline.block_frames import batcher_transactions
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import Address, Hash, InboxTransaction, L1Block

MAX_CHANNELS = 10_000
"""Channels whose transactions are kept; with more, the oldest is forgotten."""
MAX_TRANSACTIONS = 10_000
"""Transactions that are kept of one channel."""


class ChannelSources:
    """The hashes of the L1 transactions with frames of each channel that has not been taken, in order."""

    def __init__(self) -> None:
        self._hashes: dict[bytes, dict[Hash, None]] = {}

    def add(self, block: L1Block, contents: Sequence[BlobContent], batcher: Address, rules: L1Rules) -> None:
        """Reads the frames of an L1 block; `contents` are those of its blobs in order."""
        remaining = iter(contents)
        for transaction in batcher_transactions(block, batcher):
            for data in _items(transaction, remaining, rules):
                frames = parse_frames(data)
                if not isinstance(frames, Reason):
                    self.note(transaction.hash, (frame.channel for frame in frames))

    def note(self, transaction: Hash, channels: Iterable[bytes]) -> None:
        """A transaction has frames of these channels."""
        for channel in dict.fromkeys(channels):
            hashes = self._hashes.setdefault(channel, {})
            if len(hashes) < MAX_TRANSACTIONS:
                hashes[transaction] = None
        while len(self._hashes) > MAX_CHANNELS:
            del self._hashes[next(iter(self._hashes))]

    def take(self, channel: bytes) -> tuple[Hash, ...]:
        """The transactions of a channel that has ended; empty if L1 was read without hashes."""
        return tuple(each for each in self._hashes.pop(channel, ()) if each)


def _items(transaction: InboxTransaction, contents: Iterator[BlobContent], rules: L1Rules) -> Iterator[bytes]:
    """The data items of a transaction that are not refused."""
    if transaction.kind != BLOB or not rules.blobs_as_data:
        yield transaction.data
        return
    for _, content in zip(transaction.blobs, contents, strict=False):
        if content.data is not None:
            yield content.data
