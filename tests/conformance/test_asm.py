"""The channel assembler, from Holocene on: one channel at a time, its frames strictly in order [CA1 to CA9]."""

import pytest

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelAssembler
from rollup_node.stages.derivation.reasons.channels import (
    FrameNotNext,
    FrameOfOtherChannel,
    FrameWithoutChannel,
    StagingChannelReplaced,
    StagingChannelTimedOut,
    StagingChannelTooLarge,
)
from rollup_node.stages.derivation.reasons.l1 import FrameTruncated
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import channel_id
from tests.conformance.test_bank import BANK_LIMIT as LIMIT
from tests.conformance.test_bank import MEGABYTE, OVERHEAD, Bank

pytestmark = pytest.mark.fault("F29")

HOLOCENE = forks_until("holocene")
ID = channel_id("A")


@table(
    asm_single_frame=(["A0!"], ["A0"], []),
    asm_two_txs=(["A0", "A1!"], ["A0 A1"], []),
    asm_gap_cross_tx=(["A0", "A2!", "A1"], [], [FrameNotNext(2, ID, 1)]),
    asm_nonfirst_no_channel=(["A1!"], [], [FrameWithoutChannel(1, ID)]),
    asm_other_id=(["A0", "B1!"], [], [FrameOfOtherChannel(1, channel_id("B"), ID)]),
    asm_other_id_then_continue=(
        ["A0", "B1", "A1!"],
        ["A0 A1"],
        [FrameOfOtherChannel(1, channel_id("B"), ID)],
    ),
    asm_new_first_replaces=(["A0", "B0!"], ["B0"], [StagingChannelReplaced(ID, channel_id("B"))]),
    asm_same_id_restart=(["A0", "A0'!"], ["A0'"], [StagingChannelReplaced(ID, ID)]),
    asm_bad_item_between=(
        ["A0", b"\0garbage", "A1!"],
        ["A0 A1"],
        [FrameTruncated(0, 1, "channel id")],
    ),
)
def one_block(items: list[str | bytes], channels: list[str], reasons: list[Reason]) -> None:
    harness = IngestionHarness(HOLOCENE)
    assert harness.read(*items) == channels
    assert [item.reason for item in harness.dropped] == reasons


LATE = [
    (DropEffect.TIMED_OUT, StagingChannelTimedOut(ID, FIRST_L1 + 1, 50)),
    (DropEffect.IGNORED, FrameWithoutChannel(1, ID)),
]


@table(
    asm_two_blocks=(4, ["A0 A1"], []),
    asm_timeout_equal=(51, ["A0 A1"], []),
    asm_timeout_plus1=(52, [], LATE),
)
def over_several_blocks(last: int, channels: list[str], drops: list[tuple[DropEffect, Reason]]) -> None:
    harness = IngestionHarness(HOLOCENE)
    assert harness.read("A0", number=1) == []
    assert harness.read("A1!", number=last) == channels
    assert [(item.effect, item.reason) for item in harness.dropped] == drops


@case("asm_timeout_then_first")
def opened_again() -> None:
    """The new channel times out 50 blocks after its own opening."""
    harness = IngestionHarness(HOLOCENE)
    assert harness.read("A0", number=1) == []
    assert harness.read("A0'", number=61) == []
    assert harness.take_reasons() == [StagingChannelTimedOut]
    assert harness.read("A1!", number=111) == ["A0' A1"]


def filled(size: int) -> tuple[Bank, int]:
    """Return an assembler with an open channel of this size, too large to be sent as data, and its next number."""
    bank = Bank(HOLOCENE, ChannelAssembler)
    return bank, bank.fill("A", size)


@case("asm_oversize")
def too_large() -> None:
    bank, number = filled(LIMIT)
    (dropped,) = bank.take(Frame(ID, number, b"", False))
    assert (dropped.effect, dropped.reason) == (
        DropEffect.DROPPED,
        StagingChannelTooLarge(ID, LIMIT + OVERHEAD, LIMIT),
    )
    assert [item.reason.kind for item in bank.take(Frame(ID, number + 1, b"x", True))] == [FrameWithoutChannel]
    assert bank.read() == []


@case("asm_exact_size")
def just_not_too_large() -> None:
    bank, number = filled(LIMIT - OVERHEAD)
    assert bank.take(Frame(ID, number, b"", True)) == []
    channel = bank.bank.read(bank.origin, bank.rules)
    assert channel is not None and len(channel.body) == LIMIT - 101 * OVERHEAD


@case("asm_oversize_on_last")
def too_large_by_the_closing_frame() -> None:
    bank, number = filled(LIMIT - OVERHEAD)
    assert [item.reason.kind for item in bank.take(Frame(ID, number, b"x", True))] == [StagingChannelTooLarge]
    assert bank.read() == []


@case("asm_overhead_counts")
def overheads_count() -> None:
    """A hundred frames of data for 99,980,001 bytes: 20,000 more go over the limit."""
    bank, number = filled(99 * (len(MEGABYTE) + OVERHEAD))
    (dropped,) = bank.take(Frame(ID, number, MEGABYTE[: LIMIT - 100 * OVERHEAD - 99 * len(MEGABYTE) + 1], False))
    assert (number, dropped.reason.values["size"]) == (99, LIMIT + 1)
