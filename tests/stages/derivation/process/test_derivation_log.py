"""Log lines, metrics and health problems of derivation."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from rollup_node.stages.derivation.codec.batches import RejectedBatch, SingularBatch
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded, NeedL1Block, NeedL2Blocks
from rollup_node.stages.derivation.process.derivation_log import (
    LATEST_DROPS,
    LONG_WAIT,
    MAX_WARNINGS,
    PAGE,
    WARNING_SECONDS,
    DerivationLog,
    DropBuffer,
)
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.channels import (
    ChannelTimedOut,
    FrameDuplicate,
    SpanTransactionInvalid,
    StreamExhausted,
)
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.tasks import DecodeChannel, DecodedChannel
from rollup_node.stages.io.log.logger import Level, Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.derivation import DropEffect, DropsRequest
from rollup_node.tools.importers.drop_reasons import REASONS
from tests.conformance.kit.chain import L1Blocks
from tests.stages.derivation.reasons.test_reason import example

H = b"\1" * 32
TASK = DecodeChannel(b"body", 1, True, SpanRules(1, 1, 1))


class RecordingLogger(Logger):
    """Keeps the level of each line above trace, its message and its fields."""

    def __init__(self) -> None:
        super().__init__("derivation")
        self.lines: list[tuple[Level, str, Mapping[str, object]]] = []

    def write(self, level: Level, message: str, fields: Mapping[str, object], trace: str | None = None) -> None:
        """Take the place of the process' output."""
        if level is Level.TRACE:
            return
        self.lines.append((level, message, fields))


class Logged(NamedTuple):
    """A derivation log and what it writes to."""

    log: DerivationLog
    lines: RecordingLogger
    meter: Meter

    def problems(self, need: object = None, now: float = 100.0) -> list[str]:
        return [str(problem) for problem in self.log.problems(need, None, None, now)]


@pytest.fixture
def logged() -> Logged:
    lines, meter = RecordingLogger(), Meter("derivation")
    return Logged(DerivationLog(meter, lines), lines, meter)


def test_added_frames_are_counted(logged: Logged) -> None:
    """[MET11]"""
    for total in (0, 3, 3, 5):
        logged.log.frames_added(total)
    assert "frame_added_total 5.0" in logged.meter.text().decode()


def test_every_reason_can_be_logged(logged: Logged) -> None:
    for kind in REASONS:
        reason = example(kind)
        logged.lines.lines.clear()
        for effect in DropEffect:
            logged.log.dropped(Dropped(effect, reason, None))
        for _, line, fields in logged.lines.lines:
            assert str(reason) in line and fields["code"] == "INPUT-DROPPED"
            assert set(kind.fields).isdisjoint({"code", "at"}), "they would be hidden in the log"
            assert {item: fields[item] for item in kind.fields} == reason.values


def test_a_drop_is_logged_counted_and_kept(logged: Logged) -> None:
    origin = L1Blocks().last.ref
    logged.log.dropped(Dropped(DropEffect.TIMED_OUT, ChannelTimedOut(H, 1, 2), origin))
    ((level, line, fields),) = logged.lines.lines
    assert level is Level.WARN
    assert line == (f"channel timed out: channel 0x{H.hex()}, opened at L1 block 1, timed out after 2 blocks [CB2]")
    assert fields["opened"] == 1 and fields["at"] == origin
    text = logged.meter.text().decode()
    assert 'effect="timed_out",rule="CB2 channel_timed_out"' in text
    assert "channel_timeout_total 1.0" in text
    (drop,) = logged.log.drops.latest
    assert (drop.rule, drop.effect, drop.reason) == ("CB2", DropEffect.TIMED_OUT, "channel_timed_out")
    assert (drop.origin, drop.values["timeout"], drop.needs_parent_hash) == (origin, 2, False)
    logged.log.restart()
    assert (logged.log.drops.total, logged.log.drops.latest) == (1, ())


def test_what_is_read_again_after_every_start_is_no_warning(logged: Logged) -> None:
    for reason in (reasons.TimestampPast(1, 2), reasons.SpanPast(1, 2), reasons.ParentHashMismatch(H, H)):
        logged.log.dropped(Dropped(DropEffect.DROPPED, reason, None))
    logged.log.dropped(Dropped(DropEffect.IGNORED, reasons.ParentHashMismatch(H, H), None))
    assert [level for level, *_ in logged.lines.lines] == [Level.DEBUG, Level.DEBUG, Level.WARN, Level.DEBUG]
    assert [drop.needs_parent_hash for drop in logged.log.drops.latest] == [False, False, True, True]
    logged.log.reset_needed("reorg")
    text = logged.meter.text().decode()
    assert 'derivation_drop_effects_total{effect="dropped"} 3.0' in text and "derivation_errors_total 1.0" in text


def test_repeats_in_an_l1_block_are_logged_as_a_count(logged: Logged) -> None:
    l1 = L1Blocks()
    l1.skip(1)
    for block in l1.blocks[:2]:
        logged.log.at_block(block.ref)
        for number in range(1000):
            logged.log.dropped(Dropped(DropEffect.DROPPED, FrameDuplicate(number, H[:16]), block.ref))
        logged.log.dropped(Dropped(DropEffect.IGNORED, FrameDuplicate(7, H[:16]), block.ref))
    logged.log.restart()
    first, ignored, repeats = logged.lines.lines[:3]
    assert (first[0], first[2]["number"], first[2]["at"]) == (Level.WARN, 0, l1.blocks[0].ref)
    assert (ignored[0], ignored[2]["number"]) == (Level.DEBUG, 7)
    assert repeats == (
        Level.WARN,
        "more was dropped for the same reason",
        {
            "code": "INPUT-DROPPED",
            "at": l1.blocks[0].ref,
            "effect": "dropped",
            "reason": "CB9.2 frame_duplicate",
            "count": 999,
        },
    )
    lines = [fields["count"] for _, text, fields in logged.lines.lines if "more was" in text]
    assert lines == [999, 999] and len(logged.lines.lines) == 6
    text = logged.meter.text().decode()
    assert 'effect="dropped",rule="CB9.2 frame_duplicate"} 2000.0' in text
    assert 'effect="ignored",rule="CB9.2 frame_duplicate"} 2.0' in text
    assert logged.log.drops.total == 2002


def test_the_latest_drops_are_those_of_this_run(logged: Logged) -> None:
    for number in range(LATEST_DROPS + 8):
        logged.log.dropped(Dropped(DropEffect.DROPPED, FrameDuplicate(number, H[:16]), None))
    drops = logged.log.drops
    assert [drop.values["number"] for drop in drops.latest] == list(range(8, LATEST_DROPS + 8))
    assert logged.log.drops is drops, "without new drops nothing is made again"
    logged.log.restart()
    logged.log.dropped(Dropped(DropEffect.DROPPED, FrameDuplicate(99, H[:16]), None))
    assert [drop.values["number"] for drop in logged.log.drops.latest] == [99]


def test_drops_are_counted_by_reason() -> None:
    """[RPC94]"""
    block = L1Blocks().blocks[0].ref
    log = DerivationLog(Meter("derivation"), RecordingLogger())
    assert log.drop_counts is None
    log.dropped(Dropped(DropEffect.DROPPED, reasons.ParentHashMismatch(H, H), None))
    first = log.drop_counts
    for number in range(2):
        log.dropped(Dropped(DropEffect.IGNORED, FrameDuplicate(number, H[:16]), block))
    assert first is not None and len(first.kinds) == 1
    drop_counts = log.drop_counts
    assert drop_counts is not None and log.drop_counts is drop_counts
    shown = [(kind.rule, kind.reason, kind.effect, kind.count, kind.l1_block) for kind in drop_counts.kinds]
    assert shown == [
        (FrameDuplicate.rule, "frame_duplicate", DropEffect.IGNORED, 2, block.number),
        (reasons.ParentHashMismatch.rule, "parent_hash_mismatch", DropEffect.DROPPED, 1, None),
    ]
    assert "frame ignored" in drop_counts.kinds[0].text


def test_decoded_channels_are_counted_once(logged: Logged) -> None:
    batch = SingularBatch(H, 1, H, 1, ())
    need = NeedDecoded(b"key", TASK)
    rest = NeedDecoded(b"key", DecodeChannel(b"body", 1, True, TASK.span, first=1))
    logged.log.channel_decoded(need, DecodedChannel((batch,), None))
    logged.log.channel_decoded(
        rest, DecodedChannel((RejectedBatch(SpanTransactionInvalid(1, "x")),), StreamExhausted())
    )
    text = logged.meter.text().decode()
    assert "channel_input_bytes 4.0" in text
    assert 'derived_batches_total{type="singular"} 1.0' in text


def test_a_long_wait_is_a_problem(logged: Logged) -> None:
    assert logged.problems(NeedL1Block(5), 0.0) == []
    assert logged.problems(NeedL1Block(5), LONG_WAIT + 1)[0].endswith("s for L1 block 5")
    assert logged.problems(NeedDecoded(b"", TASK), 50.0) == []
    assert logged.problems(NeedDecoded(b"", TASK), 100.0)[0].endswith("a channel to be decoded")
    assert logged.problems(NeedL2Blocks(3, 4), 100.0) == []
    assert logged.problems(NeedL2Blocks(3, 4), 200.0)[0].endswith("L2 blocks 3 to 4")


@pytest.mark.condition("C5")
def test_resets_for_the_same_reason_are_a_problem(logged: Logged) -> None:
    assert list(map(str, logged.log.problems(None, "reorg", None, 0.0))) == ["derivation waits for a reset: reorg"]
    for reason in ("other", "reorg", "reorg", "reorg"):
        assert logged.problems() == []
        logged.log.reset_needed(reason)
    assert logged.problems() == ["RESET-LOOP: 3 resets for the same reason: reorg"]
    logged.log.idle(True)
    assert logged.problems() == []


def test_a_stalled_queue_is_a_problem(logged: Logged) -> None:
    l1 = L1Blocks()
    l1.skip(60)
    reason = reasons.SpanOriginUnknown(9)
    logged.log.at_block(l1.blocks[1].ref)
    assert logged.log.problems(None, None, reason, 0.0) == []
    logged.log.at_block(l1.blocks[60].ref)
    (problem,) = logged.log.problems(None, None, reason, 0.0)
    assert "held up the queue for 59 L1 blocks: last epoch 9" in problem.text


@pytest.mark.condition("C15")
def test_warnings_of_drops_are_limited() -> None:
    lines, now = RecordingLogger(), [0.0]
    log = DerivationLog(Meter("derivation"), lines, lambda: now[0])
    drop = Dropped(DropEffect.TIMED_OUT, ChannelTimedOut(H, 1, 2), None)
    l1 = L1Blocks()
    for _ in range(MAX_WARNINGS + 3):
        log.at_block(l1.last.ref)
        log.dropped(drop)
    assert [level for level, *_ in lines.lines] == [Level.WARN] * MAX_WARNINGS + [Level.DEBUG] * 3
    assert log.drops.total == MAX_WARNINGS + 3
    now[0] = WARNING_SECONDS
    log.at_block(l1.last.ref)
    log.dropped(drop)
    summary, last = lines.lines[-2:]
    assert summary == (
        Level.WARN,
        "more was dropped than is logged, see explain",
        {"code": "INPUT-DROPPED", "count": 3},
    )
    assert last[0] is Level.WARN


def test_waits_for_l1_are_timed() -> None:
    """[MET20] Each need once, however often it is seen; waits for others are not L1's."""
    times, meter = [100.0], Meter("derivation")
    log = DerivationLog(meter, RecordingLogger(), lambda: times[-1])
    for now, need in (
        (100.0, NeedL1Block(7)),
        (100.5, NeedL1Block(7)),
        (102.0, NeedL1Block(8)),
        (102.25, NeedDecoded(b"key", TASK)),
        (109.0, None),
        (120.0, NeedL1Block(9)),
        (120.5, None),
    ):
        times.append(now)
        log.waits_for(need)
    text = meter.text().decode()
    assert 'l1_request_seconds_count{request="block"} 3.0' in text
    assert 'l1_request_seconds_sum{request="block"} 2.75' in text
    assert 'request="blobs"' not in text


def _buffer(count: int, kept: int = 1000) -> DropBuffer:
    buffer = DropBuffer(kept)
    for number in range(count):
        _add(buffer, number)
    return buffer


def _add(buffer: DropBuffer, number: int) -> None:
    buffer.add(Dropped(DropEffect.DROPPED, reasons.EpochUnknown(number), None))


def _page(buffer: DropBuffer, first: int) -> tuple[int, list[int], int]:
    result = buffer.answer(DropsRequest(7, first))
    assert result.id == 7
    return result.first, [int(drop.values["epoch"]) for drop in result.drops], result.total


def test_pages_follow_each_other() -> None:
    buffer = _buffer(2 * PAGE + 5)
    read: list[int] = []
    while len(read) < buffer.total:
        first, page, total = _page(buffer, len(read))
        assert (first, total) == (len(read), 2 * PAGE + 5)
        read += page
    assert read == list(range(2 * PAGE + 5))
    assert _page(buffer, len(read)) == (len(read), [], len(read))


def test_the_oldest_drops_go() -> None:
    buffer = _buffer(25, kept=10)
    assert _page(buffer, 0) == (15, list(range(15, 25)), 25)
    assert _page(buffer, 20) == (20, list(range(20, 25)), 25)


def test_numbers_that_do_not_exist() -> None:
    assert _page(_buffer(3), 50) == (3, [], 3)
    assert _page(_buffer(3), -5) == (0, [0, 1, 2], 3)
    assert _page(_buffer(0), 0) == (0, [], 0)


def test_the_buffer_is_full_of_drops_that_no_reader_has() -> None:
    buffer = _buffer(9, kept=10)
    assert not buffer.is_full
    _add(buffer, 9)
    assert buffer.is_full
    _page(buffer, 0)
    assert buffer.is_full
    _page(buffer, 4)
    assert not buffer.is_full
    _page(buffer, 1)
    assert not buffer.is_full, "a repeated older request changes nothing"


def test_the_latest_drops_are_messages_with_all_that_the_reason_says() -> None:
    buffer = _buffer(9, kept=5)
    buffer.add(Dropped(DropEffect.FLUSHED, reasons.ParentHashMismatch(b"\1", b"\2"), None))
    assert [drop.values.get("epoch") for drop in buffer.latest(3)] == [7, 8, None]
    assert buffer.latest(2)[0].text == "batch dropped: epoch 8 is not known yet [V8]"
    (drop,) = buffer.latest(1)
    assert drop.text.startswith("batch dropped with the rest of its span and channel: ")
    assert drop.values == reasons.ParentHashMismatch(b"\1", b"\2").values
    assert len(buffer.latest(32)) == 5 and buffer.latest(0) == ()
