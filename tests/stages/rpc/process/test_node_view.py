"""What the rpc process sees of the other processes."""

import asyncio

import msgspec
import pytest

from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.rpc.process import node_view
from tests.support.rpc.harness import L2, RpcHarness, RunWithRpc


def test_after_the_stop_call_the_status_shows_a_stopped_sequencer(
    with_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's response and its status come on two channels: the call ends only when the status follows."""
    monkeypatch.setattr(node_view, "STATUS_SECONDS", 20.0)

    async def scenario(rpc: RpcHarness) -> None:
        await rpc.until_ready()
        running = EngineStatus(1, L2, L2, L2, L2, L2, True, True)
        for method, params, active in (("stop", (), False), ("start", ("0x" + L2.hash.hex(),), True)):
            rpc.on_control = lambda request: ControlResponse(request.id, None, L2.hash)
            status = msgspec.structs.replace(running, sequencer_active=active)
            asyncio.get_running_loop().call_later(0.2, rpc.status["engine"].set, status)
            await rpc.call(f"admin_{method}Sequencer", *params)
            assert await rpc.call("admin_sequencerActive") is active

    with_rpc(scenario)
