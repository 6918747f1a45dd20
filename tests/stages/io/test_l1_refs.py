"""References from an l1 process that answers, fails, or is silent."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.io.l1_refs import PATIENCE_SECONDS, REPEAT_SECONDS, L1RefsClient
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1BlocksRequest, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef
from tests.support.timing import virtual_time

REF = L1BlockRef(b"\x0f" * 32, 15, b"\x0e" * 32, 180)


class FakeBus:
    """The l1 process: `answer` makes the response to a request, None for none; `asked` are the requests."""

    def __init__(self, answer: Callable[[L1RefsRequest], L1RefsResponse | None]) -> None:
        self._answer = answer
        self.asked: list[Any] = []

    def connect(self, channel: str, handler: Callable[[Any], None]) -> "FakeBus":
        self._respond = handler
        return self

    def send(self, request: Any) -> None:
        self.asked.append(request)
        if isinstance(request, L1RefsRequest) and (response := self._answer(request)) is not None:
            asyncio.get_running_loop().call_soon(self._respond, response)


def asking(bus: FakeBus, *numbers: int, others: list[object] | None = None) -> list[tuple[L1BlockRef, ...]]:
    """Return what is answered about blocks that are asked for at once, in virtual time."""

    async def main() -> list[tuple[L1BlockRef, ...]]:
        client = L1RefsClient(bus, [].append if others is None else others.append)  # type: ignore[arg-type]
        client.send(L1BlocksRequest(7, 1))
        bus._respond("something else")
        return await asyncio.gather(*(client.ask(number, 16) for number in numbers))

    return virtual_time.run(main())


def test_several_blocks_are_asked_for_at_once() -> None:
    others: list[object] = []
    bus = FakeBus(lambda request: L1RefsResponse(request.last, (REF,) if request.last == 15 else (), None))
    assert asking(bus, 15, 16, 15, others=others) == [(REF,), (), (REF,)]
    assert bus.asked == [L1BlocksRequest(7, 1), *(L1RefsRequest(number, 16) for number in (15, 16, 15))]
    assert others == ["something else"]


def test_an_error_of_l1_is_temporary() -> None:
    bus = FakeBus(lambda request: L1RefsResponse(request.last, (), Problem(Code.L1_UNREACHABLE, "", "no answer")))
    with pytest.raises(TemporaryError, match="L1 block 15 is unavailable: no answer") as raised:
        asking(bus, 15)
    assert raised.value.code is Code.L1_UNREACHABLE


def test_an_l1_process_that_is_silent_is_temporary() -> None:
    """The request is repeated until then."""
    bus = FakeBus(lambda request: None)
    with pytest.raises(TemporaryError, match="L1 block 15 is unavailable: the l1 process does not answer") as raised:
        asking(bus, 15)
    assert raised.value.code is Code.PROCESS_SILENT
    assert len(bus.asked) == 2 + int(PATIENCE_SECONDS / REPEAT_SECONDS)


def test_who_gives_up_takes_the_answer_from_nobody_else() -> None:
    """Of two that ask for the same block the first asks in vain, until the l1 process is there again."""

    async def main() -> tuple[object, object]:
        client = L1RefsClient(bus)  # type: ignore[arg-type]
        first = asyncio.create_task(client.ask(15))
        await asyncio.sleep(PATIENCE_SECONDS / 2)
        second = asyncio.create_task(client.ask(15))
        await asyncio.sleep(PATIENCE_SECONDS / 2 + REPEAT_SECONDS)
        answers.append((REF,))
        return await asyncio.gather(first, second, return_exceptions=True)

    answers: list[tuple[L1BlockRef, ...]] = []
    bus = FakeBus(lambda request: L1RefsResponse(request.last, answers[0], None) if answers else None)
    failed, answer = virtual_time.run(main())
    assert isinstance(failed, TemporaryError) and answer == (REF,)
