"""The channel bank, before Holocene: a step reads a channel if it can, and only otherwise ingests a frame
[CB1 to CB17]."""

from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelBank
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons.channels import (
    ChannelEmpty,
    ChannelEvicted,
    ChannelTimedOut,
    FrameBeyondEnd,
    FrameClosesClosedChannel,
    FrameDuplicate,
    FrameSuperseded,
    FrameTooLate,
)
from rollup_node.stages.derivation.reasons.reason import AnyKind, Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import L1BlockRef
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, GENESIS_TIME, forks_until, l1_hash
from tests.conformance.kit.channel_reading import read_channel
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import channel_id, frames, parts

pytestmark = pytest.mark.fault("F29", "F30")

REGOLITH, CANYON, FJORD = forks_until("regolith"), forks_until("canyon"), forks_until("fjord")
BANK_LIMIT = 100_000_000
OVERHEAD = 200
MEGABYTE = bytes(1_000_000)


class Bank:
    """The bank alone, or the stage that takes its place from Holocene on, at an L1 block of any number."""

    def __init__(self, forks: dict[str, int] = REGOLITH, stage: Callable[[PipelineEvents], Any] = ChannelBank) -> None:
        self._schedule = IngestionHarness(forks).config.schedule()
        self._events = PipelineEvents()
        self.bank: ChannelBank = stage(self._events)
        self.go_to(0)

    def go_to(self, number: int, seconds: int = 0) -> None:
        """Move to an L1 block this many blocks and seconds after the first."""
        self.origin = L1BlockRef(l1_hash(number), FIRST_L1 + number, l1_hash(number - 1), GENESIS_TIME + seconds)
        self.rules = self._schedule.l1(self.origin.timestamp)

    def take(self, text: str | Frame) -> list[Dropped]:
        """Ingests frames; what is dropped."""
        for frame in frames(text) if isinstance(text, str) else [text]:
            self.bank.ingest_frame(frame, self.origin, self.rules)
        dropped = list(self._events.drops)
        self._events.drops.clear()
        return dropped

    def read(self) -> list[str]:
        """All channels that can be read, in order."""
        result = []
        while (channel := self.bank.read(self.origin, self.rules)) is not None:
            result.append(parts(channel.body))
        return result

    def fill(self, letter: str, size: int, first: int = 0) -> int:
        """Frames of an open channel that count this many bytes; the next number."""
        while size:
            data = MEGABYTE[: min(len(MEGABYTE), size - OVERHEAD)]
            if 0 < size - len(data) - OVERHEAD < OVERHEAD:
                data = data[OVERHEAD:]
            assert self.take(Frame(channel_id(letter), first, data, False)) == []
            size -= len(data) + OVERHEAD
            first += 1
        return first


def ignored(reason: Reason) -> list[Dropped]:
    """Return the drops of one ignored frame."""
    return [Dropped(DropEffect.IGNORED, reason, None)]


@table(
    bank_simple=(REGOLITH, ["A0 A1"], "A0 A1!"),
    bank_out_of_order=(REGOLITH, ["A0 A1"], "A1! A0"),
    bank_interleaved_pre_canyon=(REGOLITH, ["A0 A1", "B0"], "A0 B0! A1!"),
    bank_interleaved_canyon=(CANYON, ["B0", "A0 A1"], "A0 B0! A1!"),
    bank_id_reuse_after_read=(REGOLITH, ["A0", "A0'"], "A0!", "A0'!"),
    # If the second closing frame were ingested first, the second channel would be read.
    bank_read_before_ingest=(REGOLITH, ["A0", "A0'"], "A0! A0'!"),
)
def read(forks: dict[str, int], channels: list[str], *items: str) -> None:
    harness = IngestionHarness(forks)
    assert harness.read(*items) == channels
    assert harness.take_reasons() == []


@table(
    bank_dup_frame=("A0", "A0'", FrameDuplicate(0, channel_id("A")), "A1!", "A0 A1"),
    bank_dup_close=("A1!", "A2!", FrameClosesClosedChannel(2, channel_id("A"), 1), "A0", "A0 A1"),
    bank_close_on_existing=("A0 A1", "A1'!", FrameDuplicate(1, channel_id("A")), "A2!", "A0 A1 A2"),
    bank_beyond_end=("A1!", "A2", FrameBeyondEnd(2, channel_id("A"), 1), "A0", "A0 A1"),
)
def refused(before: str, frame: str, reason: Reason, after: str, channel: str) -> None:
    bank = Bank()
    assert bank.take(before) == []
    assert bank.take(frame) == ignored(reason)
    assert bank.read() == []
    assert bank.take(after) == []
    assert bank.read() == [channel]


@case("bank_close_prunes_higher")
def closing_frame_ends_the_channel() -> None:
    bank = Bank()
    assert bank.take("A0 A2 A3") == []
    assert [(item.effect, item.reason.kind, item.reason.values["number"]) for item in bank.take("A1!")] == [
        (DropEffect.DROPPED, FrameSuperseded, 2),
        (DropEffect.DROPPED, FrameSuperseded, 3),
    ]
    assert bank.read() == ["A0 A1"]


@case("bank_size_after_close_prune")
def size_after_such_an_end() -> None:
    """The bank counts 210 bytes although it keeps frame 0: exactly the rest of the limit is free."""
    for room, reasons in ((BANK_LIMIT - 210, []), (BANK_LIMIT - 209, [ChannelEvicted])):
        bank = Bank()
        bank.take("A0:1000 A2:1000 A1!:10")
        number = bank.fill("B", room - 1000 - OVERHEAD)
        dropped = bank.take(Frame(channel_id("B"), number, MEGABYTE[:1000], False))
        assert [item.reason.kind for item in dropped] == reasons
        assert len(bank.bank) == 2 - len(reasons)


@table(
    bank_timeout_equal=(301, ["A0 A1"], []),
    bank_timeout_plus1=(302, [], [(DropEffect.TIMED_OUT, ChannelTimedOut(channel_id("A"), FIRST_L1 + 1, 300))]),
)
def timeout(last: int, channels: list[str], drops: list[tuple[DropEffect, Reason]]) -> None:
    harness = IngestionHarness(REGOLITH)
    assert harness.read("A0", number=1) == []
    assert harness.read("A1!", number=last) == channels
    assert [(item.effect, item.reason) for item in harness.dropped] == drops


@case("bank_timeout_granite_switch")
def granite_shortens_the_life() -> None:
    """The timeout is that of the L1 block being read: in the last one before Granite the channel has not timed out."""
    bank = Bank(forks_until("fjord", granite=612))
    bank.take("A0")
    bank.go_to(50, 600)
    assert bank.take("A1") == []
    assert bank.read() == []
    bank.go_to(51, 612)
    assert bank.rules.channel_timeout == 50
    assert bank.take("A2!") == ignored(FrameTooLate(2, channel_id("A"), FIRST_L1))
    assert bank.read() == []
    assert [item.reason.kind for item in bank.take("")] == [ChannelTimedOut]
    assert len(bank.bank) == 0


@case("bank_timed_out_middle_blocks_id")
def timed_out_in_the_middle() -> None:
    """Channels are in the order of their opening, so the oldest times out first; the state is forced here."""
    bank = Bank(CANYON)
    bank.take("A0 B0")
    bank.bank._channels[channel_id("A")].opened += 100
    bank.go_to(301)
    assert bank.read() == []
    assert len(bank.bank) == 2
    assert bank.take("B0'!") == ignored(FrameTooLate(0, channel_id("B"), FIRST_L1))
    assert bank.read() == []
    assert len(bank.bank) == 2
    bank.go_to(401)
    assert bank.read() == []
    assert [item.reason.kind for item in bank.take("")] == [ChannelTimedOut] * 2


@table(bank_prune_exact=(0, []), bank_prune_plus1=(1, [ChannelEvicted]))
def limit(more: int, reasons: list[AnyKind]) -> None:
    bank = Bank()
    bank.take("A0")
    number = bank.fill("B", BANK_LIMIT - 203 - 1000 - OVERHEAD)
    dropped = bank.take(Frame(channel_id("B"), number, MEGABYTE[: 1000 + more], False))
    assert [item.reason.kind for item in dropped] == reasons
    assert [item.reason.values for item in dropped] == [
        {"channel": f"0x{channel_id('A').hex()}", "size": BANK_LIMIT + 1, "limit": BANK_LIMIT}
    ] * len(reasons)
    assert len(bank.bank) == 2 - len(reasons)


@case("bank_prune_self")
def channel_larger_than_the_bank() -> None:
    bank = Bank()
    number = bank.fill("A", BANK_LIMIT)
    (dropped,) = bank.take(Frame(channel_id("A"), number, b"", False))
    assert (dropped.effect, dropped.reason.kind) == (DropEffect.DROPPED, ChannelEvicted)
    assert len(bank.bank) == 0


@case("bank_prune_completing")
def completed_and_too_large() -> None:
    bank = Bank()
    number = bank.fill("A", BANK_LIMIT - 1000)
    bank.take("B0")
    (dropped,) = bank.take(Frame(channel_id("A"), number, MEGABYTE[:1000], True))
    assert dropped.reason.kind is ChannelEvicted
    assert dropped.reason.values["channel"] == f"0x{channel_id('A').hex()}"
    assert bank.read() == []
    assert len(bank.bank) == 1


@case("bank_fjord_limit")
def larger_from_fjord() -> None:
    bank = Bank(FJORD)
    bank.fill("A", 500_000_000)
    assert len(bank.bank) == 1
    bank.fill("B", 500_000_000)
    (dropped,) = bank.take(Frame(channel_id("B"), 0xFFFF, b"", False))
    assert dropped.reason.kind is ChannelEvicted


@case("bank_empty_channel")
def without_bytes() -> None:
    (channel,) = IngestionHarness(REGOLITH).channels("A0!:0")
    assert channel.body == b""
    assert read_channel(channel.body, REGOLITH) == ([], [Dropped(DropEffect.ENDED, ChannelEmpty(), None)])


@case("bank_ignored_frame_no_prune")
def refused_frames_do_not_prune() -> None:
    """Only a smaller limit shows whether the size was checked. No fork lowers the limit, so the test does."""
    bank = Bank(FJORD)
    bank.fill("A", 2 * BANK_LIMIT)
    bank.rules = Bank(REGOLITH).rules
    assert [item.reason.kind for item in bank.take("A0'")] == [FrameDuplicate]
    assert len(bank.bank) == 1
    assert [item.reason.kind for item in bank.take("B0")] == [ChannelEvicted]


@case("bank_canyon_origin_switch")
def canyon_lets_all_be_read() -> None:
    harness = IngestionHarness(forks_until("regolith", canyon=24))
    assert harness.read("A0 B0! C0!") == []
    assert harness.read() == ["B0", "C0"]


@case("bank_65536_frames")
def as_many_as_numbers() -> None:
    bank = Bank()
    for number in range(65536):
        bank.bank.ingest_frame(Frame(channel_id("A"), number, b"x", number == 65535), bank.origin, bank.rules)
    channel = bank.bank.read(bank.origin, bank.rules)
    assert channel is not None and channel.body == b"x" * 65536
