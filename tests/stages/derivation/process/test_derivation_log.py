"""What derivation tells about itself."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded, NeedL1Block
from rollup_node.stages.derivation.process.derivation_log import LONG_WAIT, DerivationLog
from rollup_node.stages.derivation.reasons.channels import ChannelTimedOut
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.derivation.reasons.span import SpanOriginUnknown
from rollup_node.stages.derivation.reasons.table import REASONS
from rollup_node.stages.derivation.tasks import DecodeChannel
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.derivation import DropEffect


def example(reason: type[Reason]) -> Reason:
    """A reason of this class with some values."""
    values = {"int": 7, "str": "x", "bytes": b"\1\2"}
    kinds = {field.name: field.type.__name__ for field in msgspec.structs.fields(reason)}
    return reason(**{name: values[kind] for name, kind in kinds.items()})


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def detail(self, message: str, /, **fields: object) -> None:
        self.lines.append(("detail", message))

    def debug(self, message: str, /, **fields: object) -> None:
        self.lines.append(("debug", message))

    def warn(self, message: str, /, **fields: object) -> None:
        self.lines.append(("warn", message))


@pytest.fixture
def journal() -> tuple[DerivationLog, Log, Meter]:
    log, meter = Log(), Meter("derivation")
    return DerivationLog(meter, log), log, meter


def test_every_drop_is_logged_and_counted(journal: tuple[DerivationLog, Log, Meter]) -> None:
    book, log, meter = journal
    for reason in REASONS:
        book.dropped(Dropped(DropEffect.DROPPED, example(reason), None))
    book.dropped(Dropped(DropEffect.TIMED_OUT, ChannelTimedOut(channel=b"x", opened=1, timeout=2), None))
    assert [level for level, _ in log.lines].count("debug") == 2, "only what is read again after every start"
    text = meter.text().decode()
    assert 'effect="timed_out",rule="CB2 channel_timed_out"' in text
    assert "channel_timeout_total 1.0" in text


def test_long_waits_and_repeated_resets_are_problems(journal: tuple[DerivationLog, Log, Meter]) -> None:
    book, _, _ = journal
    assert book.problems(NeedL1Block(5), None, None, 0.0) == []
    assert book.problems(NeedL1Block(5), None, None, LONG_WAIT + 1)[0].endswith("s for L1 block 5")
    task = DecodeChannel(b"", 1, True, SpanRules(1, 1, 1))
    assert book.problems(NeedDecoded(b"", task), None, None, 100.0) == []
    assert "reorg" in book.problems(None, "reorg", None, 100.0)[0]
    for _ in range(3):
        book.reset_needed("reorg")
    assert "3 resets for the same reason" in book.problems(None, None, None, 100.0)[0]
    book.idle(True)
    assert book.problems(None, None, None, 100.0) == []


def test_a_stalled_queue_is_a_problem(made: Any, journal: tuple[DerivationLog, Log, Meter]) -> None:
    book, _, _ = journal
    world = made.World({})
    reason = SpanOriginUnknown(epoch=9)
    book.at_block(world.l1(1).ref)
    assert book.problems(None, None, reason, 0.0) == []
    book.at_block(world.l1(60).ref)
    assert "held up the queue for 59" in book.problems(None, None, reason, 0.0)[0]
