"""Payloads of the engine process: requests are repeated, answers matched by id, errors and silence time out."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.p2p.process import payload_client
from rollup_node.stages.p2p.process.payload_client import PayloadClient
from tests.support.p2p.blocks import block
from tests.support.p2p.hosts import until
from tests.support.processes.recording_bus import RecordingBus

BLOCK = block(number=7)


def run(test: Callable[[RecordingBus, PayloadClient], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        bus = RecordingBus()
        async with asyncio.timeout(10):
            await test(bus, PayloadClient(cast(Bus, bus)))

    asyncio.run(bounded())


def requests(bus: RecordingBus) -> list[PayloadRequest]:
    return [message for _, message in bus.sent]


@pytest.mark.parametrize("payload", [BLOCK, None], ids=["found", "not found"])
def test_the_answer_with_the_id_of_the_request_counts(payload: Any) -> None:
    async def test(bus: RecordingBus, client: PayloadClient) -> None:
        reading = asyncio.create_task(client.read(7))
        await until(lambda: bus.sent)
        assert requests(bus) == [PayloadRequest(1, 7)]
        for answer in (PayloadResponse(2, BLOCK, None), PayloadResponse(1, payload, None)):
            bus.handlers["engine.payloads"](answer)
        bus.handlers["engine.payloads"](PayloadResponse(1, BLOCK, None))
        assert await reading == payload

    run(test)


def test_a_request_is_repeated_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_client, "RESEND_SECONDS", 0.01)

    async def test(bus: RecordingBus, client: PayloadClient) -> None:
        reading = asyncio.create_task(client.read(7))
        await until(lambda: len(bus.sent) >= 3)
        assert set(requests(bus)) == {PayloadRequest(1, 7)}
        bus.handlers["engine.payloads"](PayloadResponse(1, BLOCK, None))
        assert await reading == BLOCK

    run(test)


def test_an_error_and_silence_are_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_client, "TIMEOUT_SECONDS", 0.05)

    async def test(bus: RecordingBus, client: PayloadClient) -> None:
        with pytest.raises(TimeoutError):
            await client.read(7)
        reading = asyncio.create_task(client.read(8))
        await until(lambda: requests(bus)[-1] == PayloadRequest(2, 8))
        bus.handlers["engine.payloads"](PayloadResponse(2, None, "the engine is away"))
        with pytest.raises(TimeoutError, match="the engine is away"):
            await reading

    run(test)
