"""The L1 transactions that a channel's frames came in."""

import msgspec
import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.block_frames import data_items, parse_block
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.types import InboxTransaction
from rollup_node.tools.inspect import channel_sources
from rollup_node.tools.inspect.channel_sources import BlockSources
from tests.conformance.kit.chain import BATCHER, STRANGER, L1Blocks, blobs, calldata
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

HASHES = [bytes((digit,)) * 32 for digit in range(3)]


def data(*channels: str) -> bytes:
    """Return a data item with an empty frame of each channel."""
    return b"\0" + b"".join(name.encode() * 16 + bytes(7) for name in channels)


def hashed(transaction: InboxTransaction, digit: int) -> InboxTransaction:
    return msgspec.structs.replace(transaction, hash=bytes((digit,)) * 32)


def content(digit: int, item: bytes | None) -> BlobContent:
    return BlobContent(bytes((digit,)) * 32, item, None if item is not None else "BL1")


ROLLUP = msgspec.structs.replace(
    PLAIN_ROLLUP, fork_times=dict.fromkeys(("regolith", "canyon", "delta", "ecotone", "fjord"), 0)
)


def batch(number: int) -> SingularBatch:
    return SingularBatch(bytes(32), 1, bytes(32), number, ())


class Replayed:
    """The events of a pipeline, as its stages report them."""

    def __init__(self) -> None:
        self.events, self._chain = BlockSources(ROLLUP), L1Blocks()

    def read(self, *inbox: InboxTransaction, contents: tuple[BlobContent, ...] = ()) -> None:
        """Read an L1 block."""
        self._chain.add()
        block = msgspec.structs.replace(self._chain.blocks[-1], inbox=inbox)
        self.events.block_opened(block, BATCHER)
        rules = ROLLUP.schedule().l1(block.header.timestamp)
        items = data_items(block, BATCHER, rules)
        self.events.frames_parsed(parse_block(block.header.hash, BATCHER, items, contents, rules))

    def open(self, channel: bytes, *batches: SingularBatch) -> list[int]:
        """Open a channel, and read these batches of it; the first bytes of its transactions."""
        self.events.channel_opened(channel * 16, 9)
        for item in batches:
            self.events.batch_read(channel * 16, item)
        return [item[0] for item in self.events.transactions]

    def accepted(self, read: SingularBatch) -> list[int]:
        """Return the transactions, by their first byte, of a batch that is accepted."""
        self.events.batch_accepted(read)
        source = self.events.accepted
        return [] if source is None else [item[0] for item in source.l1_transactions]


def test_a_batch_has_the_transactions_of_its_channel() -> None:
    replayed = Replayed()
    replayed.read(
        hashed(calldata(data("a", "b")), 1),
        hashed(calldata(data("a"), STRANGER), 2),
        hashed(calldata(b"\5"), 3),
        hashed(blobs(HASHES), 4),
        hashed(calldata(data("a")), 5),
        contents=(content(0, data("b")), content(1, None), content(2, data("c"))),
    )
    replayed.read(hashed(calldata(data("b")), 6))
    first, second, third, empty = map(batch, range(4))
    replayed.open(b"a", first, second)
    replayed.open(b"b", third)
    assert replayed.accepted(first) == [1, 5]
    assert replayed.accepted(empty) == [], "an empty batch is of no transaction"
    assert replayed.accepted(third) == [1, 4, 6]
    assert replayed.accepted(second) == [1, 5]


def test_memory_of_channels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """And L1 may have been read without hashes."""
    monkeypatch.setattr(channel_sources, "MAX_CHANNELS", 3)
    monkeypatch.setattr(channel_sources, "MAX_TRANSACTIONS", 3)
    replayed = Replayed()
    replayed.read(*(hashed(calldata(data("a", "b")), digit) for digit in range(1, 6)))
    replayed.read(hashed(calldata(data("c")), 6), calldata(data("d")))
    assert [replayed.open(name) for name in (b"a", b"b", b"c", b"d")] == [[], [1, 2, 3], [6], []]


def test_memory_of_batches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_sources, "MAX_BATCHES", 2)
    replayed = Replayed()
    replayed.read(hashed(calldata(data("a")), 1))
    read = list(map(batch, range(3)))
    replayed.open(b"a", *read)
    assert [replayed.accepted(item) for item in read] == [[], [1], [1]]
