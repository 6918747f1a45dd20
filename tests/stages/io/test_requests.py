"""Requests to another process: repeated, bounded, answered by their id."""

import asyncio
from typing import Any, cast

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io import requests
from rollup_node.stages.messages.control import ControlResponse, StopSequencerRequest
from tests.support.processes.recording_bus import RecordingBus
from tests.support.timing.conditions import until


async def test_a_request_is_repeated_until_its_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another id is of another request, a second answer changes nothing, and what is no answer goes elsewhere."""
    monkeypatch.setattr(requests, "REPEAT_SECONDS", 0.01)
    bus, others = RecordingBus(), list[Any]()
    client = requests.RequestClient(cast(Bus, bus), "engine.control", others.append)
    response = asyncio.create_task(client.request(StopSequencerRequest))
    await until(lambda: len(bus.sent) >= 3)
    assert {message for _, message in bus.sent} == {StopSequencerRequest(1)}
    for answer in (ControlResponse(2, "other", None), "news", *(ControlResponse(1, text, None) for text in ("a", "b"))):
        bus.handlers["engine.control"](answer)
    assert await response == ControlResponse(1, "a", None) and others == ["news"]


async def test_only_so_many_requests_are_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_PENDING", 2)
    bus = RecordingBus()
    client = requests.RequestClient(cast(Bus, bus), "engine.control")
    waiting = [asyncio.create_task(client.request(StopSequencerRequest)) for _ in range(3)]
    for answered in range(3):
        await until(lambda count=answered: len(bus.sent) == min(3, count + 2))  # type: ignore[misc]
        bus.handlers["engine.control"](ControlResponse(answered + 1, None, None))
    assert [response.id for response in await asyncio.gather(*waiting)] == [1, 2, 3]
