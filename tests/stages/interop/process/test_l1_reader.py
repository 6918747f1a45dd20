"""L1 as the interop process sees it: each block is asked for once while the chain only grows [VR4]."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.interop.process import l1_reader
from rollup_node.stages.interop.process.l1_reader import L1Reader
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1Heads, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef
from tests.support.timing import virtual_time

Answer = Callable[[int], tuple[tuple[L1BlockRef, ...], Problem | None]]


def ref(number: int, branch: int = 0) -> L1BlockRef:
    """Return a block of L1; a branch begins above block 10."""
    return L1BlockRef(_hash(number, branch), number, _hash(number - 1, branch), number)


def _hash(number: int, branch: int) -> bytes:
    return bytes([branch if number > 10 else 0]) * 28 + number.to_bytes(4, "big")


class FakeBus:
    """The bus with an l1 process that answers by `answer`; `asked` are the numbers of requests."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answer: Answer = lambda number: ((ref(number),), None)

    def connect(self, channel: str, handler: Callable[[Any], None]) -> "FakeBus":
        assert channel == "l1.origins"
        self._respond = handler
        return self

    def subscribe(self, channel: str, handler: Callable[[Any], None]) -> None:
        assert channel == "status.l1"
        self.heads = handler

    def send(self, request: L1RefsRequest) -> None:
        self.asked.append(request.last)
        refs, error = self.answer(request.last)
        asyncio.get_running_loop().call_soon(self._respond, L1RefsResponse(request.last, refs, error))


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus()


def reader_of(bus: FakeBus, finalized: int = 0) -> L1Reader:
    """Return a reader that knows block 20 as the head."""
    result = L1Reader(bus, finalized, lambda: None)  # type: ignore[arg-type]
    bus.heads(L1Heads(ref(20), None, None))
    return result


async def test_a_block_is_asked_for_once(bus: FakeBus) -> None:
    reader = reader_of(bus)
    assert reader.known([15, 20]).hashes == {15: None, 20: ref(20).hash}
    assert (await reader.view([15, 18])).hashes == {15: ref(15).hash, 18: ref(18).hash}
    bus.heads(L1Heads(ref(21), None, None))
    assert (await reader.view([15, 18, 20, 21])).hashes[21] == ref(21).hash
    assert bus.asked == [15, 18], "heads are known without asking"
    assert reader.known([15, 21]).hashes == {15: ref(15).hash, 21: ref(21).hash}


@pytest.mark.parametrize("head", [ref(21, 1), ref(22), ref(19), None])
async def test_after_another_change_all_are_asked_for_again(bus: FakeBus, head: L1BlockRef | None) -> None:
    reader = reader_of(bus)
    await reader.view([15])
    bus.answer = lambda number: ((ref(number, 1),), None)
    bus.heads(L1Heads(head, None, None))
    assert (await reader.view([15])).hashes == {15: ref(15, 1).hash}


async def test_a_fresh_view_asks_for_all(bus: FakeBus) -> None:
    reader = reader_of(bus)
    await reader.view([15, 20])
    bus.answer = lambda number: ((ref(number, 1),), None)
    assert (await reader.view([15, 20], fresh=True)).hashes == {15: ref(15, 1).hash, 20: ref(20, 1).hash}


async def test_what_l1_changes_meanwhile_is_not_kept(bus: FakeBus) -> None:
    reader = reader_of(bus)

    def answer(number: int) -> tuple[tuple[L1BlockRef, ...], None]:
        bus.heads(L1Heads(ref(21, 1), None, None))
        return (ref(number),), None

    bus.answer = answer
    await reader.view([15])
    bus.answer = lambda number: ((ref(number, 1),), None)
    assert (await reader.view([15])).hashes == {15: ref(15, 1).hash}


async def test_blocks_above_the_head_and_missing_ones_are_not_kept(bus: FakeBus) -> None:
    """Also all of them where the head is not polled."""
    reader = reader_of(bus)
    bus.answer = lambda number: ((ref(number),) if number < 30 else (), None)
    for _ in range(2):
        assert (await reader.view([25, 30])).hashes == {25: ref(25).hash, 30: None}
    assert bus.asked == [25, 30] * 2
    bus.heads(L1Heads(None, None, None))
    for _ in range(2):
        await reader.view([15])
    assert bus.asked[4:] == [15, 15]


async def test_finality_never_goes_back(bus: FakeBus) -> None:
    """[VR13]: nor below what was stored."""
    reader = reader_of(bus, finalized=12)
    for number, wanted in ((11, 12), (14, 14), (13, 14)):
        bus.heads(L1Heads(ref(20), None, ref(number)))
        assert (await reader.view([])).finalized == wanted


async def test_what_is_known_is_bounded(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l1_reader, "MAX_KNOWN", 5)
    reader = reader_of(bus)
    for number in range(5, 20):
        await reader.view([number])
    assert len(reader._known) <= 5


async def test_an_error_of_l1_is_temporary(bus: FakeBus) -> None:
    reader = reader_of(bus)
    bus.answer = lambda number: ((), Problem(Code.L1_UNREACHABLE, "", "no answer"))
    with pytest.raises(TemporaryError, match="L1 block 15 is unavailable: no answer") as raised:
        await reader.view([15])
    assert raised.value.code is Code.L1_UNREACHABLE


def test_an_l1_process_that_is_silent_is_temporary(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is repeated until then."""

    async def main() -> None:
        reader = reader_of(bus)
        monkeypatch.setattr(bus, "_respond", lambda message: None)
        with pytest.raises(TemporaryError, match="the l1 process does not answer") as raised:
            await reader.view([15])
        assert raised.value.code is Code.PROCESS_SILENT

    virtual_time.run(main())
    assert len(bus.asked) == 1 + int(l1_reader.PATIENCE_SECONDS / l1_reader.REPEAT_SECONDS)
