"""Requests of the rpc process are handled once and answered as often as they come."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.stages.engine.core.inbox import RpcRequest
from rollup_node.stages.engine.process.control_server import MAX_RESPONSES, ControlServer, RpcResponse
from rollup_node.stages.messages.control import ControlResponse, StopSequencerRequest
from rollup_node.stages.topology import CHANNELS
from tests.stages.engine.conftest import Play


class Rpc:
    """An rpc process and the server of an engine process; `handled` is what the server passed on."""

    def __init__(self, directory: Path) -> None:
        self.handled: list[tuple[ProcessId, RpcRequest]] = []
        self.responses: list[RpcResponse] = []
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "rpc": 1})
        self.server = ControlServer(self.buses["engine"], lambda peer, message: self.handled.append((peer, message)))
        self.client = self.buses["rpc"].connect("engine.control", self.responses.append)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.01)


def test_a_repeated_request_gets_the_first_response(tmp_path: Path, play: Play) -> None:
    async def scene() -> None:
        rpc = Rpc(tmp_path)
        async with running_buses(rpc.buses):
            request = StopSequencerRequest(1)
            rpc.client.send(request)
            rpc.client.send(request)
            await rpc.until(lambda: len(rpc.handled) == 2)
            peer = rpc.handled[0][0]
            rpc.server.respond(peer, ControlResponse(1, None, bytes(32)))
            rpc.client.send(request)
            await rpc.until(lambda: len(rpc.responses) == 2)
            assert rpc.responses == [ControlResponse(1, None, bytes(32))] * 2 and len(rpc.handled) == 2
            for number in range(2, MAX_RESPONSES + 2):
                rpc.server.respond(peer, ControlResponse(number, None, None))
            rpc.client.send(request)
            await rpc.until(lambda: len(rpc.handled) == 3)

    play(scene())
