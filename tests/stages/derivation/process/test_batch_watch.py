"""An L1 without batches has a code, with what came to the inbox instead [LOG16]."""

import pytest

from rollup_node.stages.derivation.process.batch_watch import BatchWatch
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.reasons.singular import ParentHashMismatch
from rollup_node.stages.derivation.reasons.span import SpanPast
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import BlockId, L1BlockRef
from tests.stages.derivation.process.test_derivation_log import RecordingLogger

WINDOW = 200
LIMIT = WINDOW // 10
STRANGER, BATCHER, H = b"\7" * 20, b"\1" * 20, b"\1" * 32


def block(number: int) -> L1BlockRef:
    return L1BlockRef(number.to_bytes(32, "big"), number, H, number * 12)


def epoch(number: int) -> BlockId:
    return BlockId(number, H)


class Watched:
    """A watch that starts at L1 block 100, and what it logs."""

    def __init__(self) -> None:
        self.lines = RecordingLogger()
        self.watch = BatchWatch(WINDOW, self.lines)
        self.watch.restart(epoch(100))

    def read(self, first: int, last: int) -> None:
        """Reads L1 blocks, both included."""
        for number in range(first, last + 1):
            self.watch.at_block(block(number))

    def drop(self, reason: object, at: int) -> None:
        self.watch.dropped(Dropped(DropEffect.DROPPED, reason, block(at)))  # type: ignore[arg-type]


@pytest.mark.sign("NO-BATCHES", line=True, readyz=True)
def test_blocks_without_batches_are_said_once_with_what_came_instead() -> None:
    watched = Watched()
    watched.read(90, 100 + LIMIT - 1)
    watched.drop(SenderNotBatcher(STRANGER, BATCHER), 105)
    watched.drop(SenderNotBatcher(STRANGER, BATCHER), 106)
    watched.drop(ParentHashMismatch(H, H), 106)
    assert watched.lines.lines == [] and watched.watch.problem is None
    watched.read(100 + LIMIT, 100 + LIMIT + 5)
    ((_, text, fields),) = watched.lines.lines
    assert "no batch" in text and fields["code"] == "NO-BATCHES" and fields["l1_blocks"] == LIMIT
    assert fields["window_left"] == WINDOW - LIMIT and fields["do"] == Code.NO_BATCHES.remedy
    assert fields["other_senders"] == f"0x{STRANGER.hex()} (2)"
    assert str(fields["dropped"]).endswith("parent_hash_mismatch (1)")
    watched.read(100 + LIMIT + 6, 100 + WINDOW // 2 - 1)
    assert watched.watch.problem is None
    watched.read(100 + WINDOW // 2, 100 + WINDOW // 2)
    assert str(watched.watch.problem) == (
        f"NO-BATCHES: no batch was accepted in the last {WINDOW // 2} L1 blocks,"
        f" {WINDOW // 2} of the sequencing window are left"
    )
    assert watched.watch.derived(epoch(101), block(230))
    _, text, fields = watched.lines.lines[-1]
    assert "accepted again" in text and "tried" not in fields and watched.watch.problem is None
    watched.read(231, 230 + LIMIT)
    assert "other_senders" not in watched.lines.lines[-1][2] and len(watched.lines.lines) == 3


def test_blocks_that_the_end_of_the_window_made_are_no_batches() -> None:
    watched = Watched()
    watched.read(101, 100 + WINDOW + 1)
    assert not watched.watch.derived(epoch(101), block(100 + WINDOW + 1))
    assert watched.watch.problem is not None and "blocks are empty" in watched.watch.problem.text
    assert len(watched.lines.lines) == 1


def test_after_a_start_batches_of_the_past_count() -> None:
    watched = Watched()
    watched.read(90, 110)
    watched.drop(SpanPast(1, 2), 110)
    watched.read(111, 110 + LIMIT - 1)
    assert watched.lines.lines == []
    watched.read(110 + LIMIT, 110 + LIMIT)
    assert len(watched.lines.lines) == 1
    watched.watch.restart(epoch(110 + LIMIT))
    assert watched.watch.problem is None


def test_the_senders_that_are_kept_are_few() -> None:
    watched = Watched()
    for number in range(10_000):
        watched.drop(SenderNotBatcher(number.to_bytes(20, "big"), BATCHER), 101)
    watched.read(100 + LIMIT, 100 + LIMIT)
    assert str(watched.lines.lines[0][2]["other_senders"]).count("0x") == 3
    assert len(watched.watch._senders) == 16
