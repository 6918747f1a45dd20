"""The L1 transactions that each derived block comes from."""

import msgspec
import pytest

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.block_frames import data_items, parse_block
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.types import InboxTransaction
from rollup_node.tools.inspect import block_sources
from rollup_node.tools.inspect.block_sources import BlockSources
from tests.conformance.kit.chain import BATCHER, STRANGER, L1Blocks, blobs, calldata
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.tools.inspect.test_channel_sources import content, data, hashed

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
        """An L1 block."""
        self._chain.add()
        block = msgspec.structs.replace(self._chain.blocks[-1], inbox=inbox)
        self.events.block_opened(block, BATCHER)
        rules = ROLLUP.schedule().l1(block.header.timestamp)
        items = data_items(block, BATCHER, rules)
        self.events.frames_parsed(parse_block(block.header.hash, BATCHER, items, contents, rules))

    def accepted(self, read: SingularBatch) -> list[int]:
        """The transactions, by their first byte, of a batch that is accepted."""
        self.events.batch_accepted(read)
        return [each[0] for each in self.events.accepted]


def test_a_batch_has_the_transactions_of_its_channel() -> None:
    replayed, hashes = Replayed(), [bytes((digit,)) * 32 for digit in range(3)]
    replayed.read(
        hashed(calldata(data("a", "b")), 1),
        hashed(calldata(data("a"), STRANGER), 2),
        hashed(calldata(b"\5"), 3),
        hashed(blobs(hashes), 4),
        hashed(calldata(data("a")), 5),
        contents=(content(0, data("b")), content(1, None), content(2, data("c"))),
    )
    replayed.read(hashed(calldata(data("b")), 6))
    first, second, third, empty = map(batch, range(4))
    replayed.events.channel_opened(b"a" * 16, 9)
    replayed.events.batch_read(b"a" * 16, first)
    replayed.events.batch_read(b"a" * 16, second)
    replayed.events.channel_opened(b"b" * 16, 9)
    replayed.events.batch_read(b"b" * 16, third)
    assert replayed.accepted(first) == [1, 5]
    assert replayed.accepted(empty) == [], "an empty batch is of no transaction"
    assert replayed.accepted(third) == [1, 4, 6]
    assert replayed.accepted(second) == [1, 5]


def test_the_blocks_of_a_span_have_its_transactions() -> None:
    replayed = Replayed()
    replayed.read(hashed(calldata(data("a")), 1))
    replayed.events.channel_opened(b"a" * 16, 9)
    # The stages pass spans on as they are; only their identity counts here.
    span = batch(7)
    replayed.events.batch_read(b"a" * 16, span)
    for number in range(3):
        block = batch(number)
        replayed.events.span_block(span, block)  # type: ignore[arg-type]
        assert replayed.accepted(block) == [1]
    assert replayed.accepted(batch(9)) == []


def test_memory_of_batches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sources, "MAX_BATCHES", 2)
    replayed = Replayed()
    replayed.read(hashed(calldata(data("a")), 1))
    replayed.events.channel_opened(b"a" * 16, 9)
    read = list(map(batch, range(3)))
    for each in read:
        replayed.events.batch_read(b"a" * 16, each)
    assert [replayed.accepted(each) for each in read] == [[], [1], [1]]
