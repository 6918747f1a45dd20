"""Requests to other processes are repeated until they are answered."""

import asyncio

import pytest

from rollup_node.stages.messages.control import ControlResponse, StopSequencerRequest
from rollup_node.stages.rpc.process import process_client
from tests.support.rpc.harness import L2, RpcHarness, RunWithRpc


def test_a_request_is_repeated_until_it_is_answered(with_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_client, "REPEAT_SECONDS", 0.05)

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: (
            ControlResponse(request.id, None, L2.hash) if len(rpc.control_requests) >= 3 else None
        )
        assert await rpc.call("admin_stopSequencer") == "0x" + L2.hash.hex()
        assert rpc.control_requests[0] == rpc.control_requests[2] == StopSequencerRequest(1)

    with_rpc(scenario)


def test_only_so_many_requests_are_pending(with_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_client, "MAX_PENDING", 2)
    monkeypatch.setattr(process_client, "REPEAT_SECONDS", 0.05)

    async def scenario(rpc: RpcHarness) -> None:
        client = rpc.stage.node.control
        waiting = [asyncio.create_task(client.request(StopSequencerRequest)) for _ in range(3)]
        await rpc.until(lambda: len({request.id for request in rpc.control_requests}) == 2)
        rpc.on_control = lambda request: ControlResponse(request.id, None, L2.hash)
        async with asyncio.timeout(10):
            assert [response.id for response in await asyncio.gather(*waiting)] == [1, 2, 3]

    with_rpc(scenario)


def test_requests_have_ids_of_their_own_and_late_responses_are_ignored(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: ControlResponse(request.id, None, L2.hash)
        for _ in range(2):
            assert await rpc.stage.node.control.request(StopSequencerRequest) is not None
        assert len({request.id for request in rpc.control_requests}) == 2

    with_rpc(scenario)
