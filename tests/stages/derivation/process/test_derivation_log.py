"""What derivation tells about itself."""

import re
from typing import Any

import pytest

from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded, NeedL1Block
from rollup_node.stages.derivation.process.derivation_log import LONG_WAIT, Journal
from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Why
from rollup_node.stages.derivation.tasks import DecodeChannel
from rollup_node.stages.io.metrics import Meter


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def trace(self, message: str, /, **fields: object) -> None:
        self.lines.append(("trace", message))

    def debug(self, message: str, /, **fields: object) -> None:
        self.lines.append(("debug", message))

    def warn(self, message: str, /, **fields: object) -> None:
        self.lines.append(("warn", message))


@pytest.fixture
def journal() -> tuple[Journal, Log, Meter]:
    log, meter = Log(), Meter("derivation")
    return Journal(meter, log), log, meter


def test_every_drop_is_logged_and_counted(journal: tuple[Journal, Log, Meter]) -> None:
    book, log, meter = journal
    for why in Why:
        values = {place: 7 for place in ("origin", "number", "timestamp")}
        full = {name: 7 for name in re.findall(r"{(\w+)}", why.value.text)} | values
        book.dropped(Dropped(Effect.DROPPED, why(**full), None))
    book.dropped(Dropped(Effect.TIMED_OUT, Why.BANK_TIMEOUT(channel=b"x", opened=1, timeout=2), None))
    assert [level for level, _ in log.lines].count("debug") == 2, "only what is read again after every start"
    text = meter.text().decode()
    assert 'effect="timed_out",rule="CB2 bank_timeout"' in text
    assert "channel_timeout_total 1.0" in text


def test_long_waits_and_repeated_resets_are_problems(journal: tuple[Journal, Log, Meter]) -> None:
    book, _, _ = journal
    assert book.problems(NeedL1Block(5), None, None, 0.0) == []
    assert book.problems(NeedL1Block(5), None, None, LONG_WAIT + 1)[0].endswith("s for L1 block 5")
    task = DecodeChannel(b"", 1, True, SpanRules(1, 1, 1))
    assert book.problems(NeedDecoded(b"", task), None, None, 100.0) == []
    assert "reorg" in book.problems(None, "reorg", None, 100.0)[0]
    for _ in range(3):
        book.reset_wanted("reorg")
    assert "3 times" in book.problems(None, None, None, 100.0)[0]
    book.idle(True)
    assert book.problems(None, None, None, 100.0) == []


def test_a_stalled_queue_is_a_problem(made: Any, journal: tuple[Journal, Log, Meter]) -> None:
    book, _, _ = journal
    world = made.World({})
    reason = Why.SPAN_ORIGIN_UNKNOWN(epoch=9)
    book.at_block(world.l1(1).ref)
    assert book.problems(None, None, reason, 0.0) == []
    book.at_block(world.l1(60).ref)
    assert "held up the queue for 59" in book.problems(None, None, reason, 0.0)[0]
