"""What the rpc process sees of the other processes."""

import asyncio

import msgspec
import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.derivation.process.derivation_log import DropBuffer
from rollup_node.stages.derivation.reasons.batches import EpochUnknown
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io import requests
from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.messages.derivation import DropEffect, DropsRequest
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.rpc.process import node_view
from tests.support.rpc.harness import L1, L2, RunWithRpc


async def test_after_the_stop_call_the_status_shows_a_stopped_sequencer(
    running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's response and its status come on two channels: the call ends only when the status follows."""
    monkeypatch.setattr(node_view, "STATUS_SECONDS", 20.0)
    async with running_rpc() as rpc:
        await rpc.until_ready()
        running = EngineStatus(1, L2, L2, L2, L2, L2, True, True)
        for method, params, active in (("stop", (), False), ("start", ("0x" + L2.hash.hex(),), True)):
            rpc.on_control = lambda request: ControlResponse(request.id, None, L2.hash)
            status = msgspec.structs.replace(running, sequencer_active=active)
            asyncio.get_running_loop().call_later(0.2, rpc.status["engine"].set, status)
            await rpc.call(f"admin_{method}Sequencer", *params)
            assert await rpc.call("admin_sequencerActive") is active


async def test_drops_are_fetched_page_by_page(running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "REPEAT_SECONDS", 0.05)
    buffer = DropBuffer(kept=500)
    for number in range(700):
        buffer.add(Dropped(DropEffect.DROPPED, EpochUnknown(number), L1))
    async with running_rpc() as rpc:
        lost: set[int] = set()

        def answer_the_repetition(client: ProcessId, request: DropsRequest) -> None:
            if request.id in lost:
                server.send(client, buffer.answer(request))
            lost.add(request.id)

        server = rpc.buses["derivation"].serve("derivation.drops", answer_the_repetition)
        result = await rpc.call("explain_drops")
        assert result["total"] == 700
        assert [drop["values"]["epoch"] for drop in result["drops"]] == list(range(200, 700))
        assert result["drops"][0] == {
            "l1_block": {"hash": "0x" + L1.hash.hex(), "number": 10},
            "effect": "dropped",
            "rule": "V8",
            "reason": "epoch_unknown",
            "text": "batch dropped: epoch 200 is not known yet [V8]",
            "values": {"epoch": 200},
        }
