"""The L1 transactions that a channel's frames came in."""

import msgspec
import pytest

from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import InboxTransaction
from rollup_node.tools.inspect import channel_sources
from rollup_node.tools.inspect.channel_sources import ChannelSources
from tests.conformance.kit.chain import BATCHER, STRANGER, L1Blocks, blobs, calldata

RULES = L1Rules(blobs_as_data=True)


def data(*channels: str) -> bytes:
    """A data item with an empty frame of each channel."""
    return b"\0" + b"".join(name.encode() * 16 + bytes(7) for name in channels)


def hashed(transaction: InboxTransaction, digit: int) -> InboxTransaction:
    return msgspec.structs.replace(transaction, hash=bytes((digit,)) * 32)


def taken(sources: ChannelSources, channel: str) -> list[int]:
    return [each[0] for each in sources.take(channel.encode() * 16)]


def content(digit: int, item: bytes | None) -> BlobContent:
    return BlobContent(bytes((digit,)) * 32, item, None if item is not None else "BL1")


def add(sources: ChannelSources, *inbox: InboxTransaction, contents: tuple[BlobContent, ...] = ()) -> None:
    l1 = L1Blocks()
    sources.add(msgspec.structs.replace(l1.blocks[0], inbox=inbox), contents, BATCHER, RULES)


def test_calldata_and_blobs_of_several_blocks() -> None:
    sources, hashes = ChannelSources(), [bytes((digit,)) * 32 for digit in range(3)]
    refused = content(1, None)
    add(
        sources,
        hashed(calldata(data("a", "b")), 1),
        hashed(calldata(data("a"), STRANGER), 2),
        hashed(blobs(hashes[:2]), 3),
        hashed(blobs(hashes[2:]), 4),
        hashed(calldata(b"\5"), 5),
        contents=(content(0, data("b", "b")), refused, content(2, data("a"))),
    )
    add(sources, hashed(calldata(data("b")), 6))
    assert taken(sources, "a") == [1, 4]
    assert taken(sources, "b") == [1, 3, 6]
    assert taken(sources, "b") == [], "a channel is taken once"


def test_without_hashes_nothing_is_known() -> None:
    sources = ChannelSources()
    add(sources, calldata(data("a")))
    assert taken(sources, "a") == []


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_sources, "MAX_CHANNELS", 2)
    monkeypatch.setattr(channel_sources, "MAX_TRANSACTIONS", 3)
    sources = ChannelSources()
    add(sources, *(hashed(calldata(data("a", "b")), digit) for digit in range(1, 6)))
    add(sources, hashed(calldata(data("c")), 6))
    assert [taken(sources, name) for name in "abc"] == [[], [1, 2, 3], [6]]
