"""Pages of drops, and how many are kept."""

from rollup_node.stages.derivation.process.drop_buffer import PAGE, DropBuffer
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.reasons.singular import EpochUnknown, ParentHashMismatch
from rollup_node.stages.messages.derivation import Drop, DropEffect, DropsRequest


def _buffer(count: int, kept: int = 1000) -> DropBuffer:
    buffer = DropBuffer(kept)
    for number in range(count):
        _add(buffer, number)
    return buffer


def _add(buffer: DropBuffer, number: int) -> None:
    buffer.add(Dropped(DropEffect.DROPPED, EpochUnknown(number), None))


def _page(buffer: DropBuffer, first: int) -> tuple[int, list[int], int]:
    found = buffer.answer(DropsRequest(7, first))
    assert found.id == 7
    return found.first, [int(drop.values["epoch"]) for drop in found.drops], found.total


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
    buffer.add(Dropped(DropEffect.FLUSHED, ParentHashMismatch(b"\1", b"\2"), None))
    text = "batch dropped with the rest of its span and channel: epoch 8 is not known yet [V8]"
    assert [drop.values.get("epoch") for drop in buffer.latest(3)] == [7, 8, None]
    assert buffer.latest(2)[0].text == text.replace(" with the rest of its span and channel", "")
    assert buffer.latest(1) == (
        Drop(
            rule=ParentHashMismatch.rule,
            text=str(Dropped(DropEffect.FLUSHED, ParentHashMismatch(b"\1", b"\2"), None)),
            origin=None,
            needs_parent_hash=True,
            effect=DropEffect.FLUSHED,
            reason="parent_hash_mismatch",
            values=ParentHashMismatch(b"\1", b"\2").values,
        ),
    )
    assert len(buffer.latest(32)) == 5 and buffer.latest(0) == ()
