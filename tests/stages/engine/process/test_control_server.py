"""Requests of the rpc process are handled once and answered as often as they come."""

from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.core.inbox import RpcRequest
from rollup_node.stages.engine.process.control_server import (
    MAX_RESPONSE_BYTES,
    MAX_RESPONSES,
    ControlServer,
    RpcResponse,
)
from rollup_node.stages.messages.control import BuildResponse, ControlResponse, SealBlockRequest, StopSequencerRequest
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from tests.stages.engine.conftest import Play
from tests.support.p2p.blocks import block
from tests.support.timing.conditions import until

PEER = ProcessId(0, 1)


class Rpc:
    """An rpc process and the server of an engine process; `handled` is what the server passed on."""

    def __init__(self, directory: Path) -> None:
        self.handled: list[tuple[ProcessId, RpcRequest]] = []
        self.responses: list[RpcResponse] = []
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "rpc": 1})
        self.server = ControlServer(self.buses["engine"], lambda peer, message: self.handled.append((peer, message)))
        self.client = self.buses["rpc"].connect("engine.control", self.responses.append)


def test_a_repeated_request_gets_the_first_response(tmp_path: Path, play: Play) -> None:
    async def scene() -> None:
        rpc = Rpc(tmp_path)
        async with running_buses(rpc.buses):
            request = StopSequencerRequest(1)
            rpc.client.send(request)
            rpc.client.send(request)
            await until(lambda: len(rpc.handled) == 2)
            peer = rpc.handled[0][0]
            rpc.server.respond(peer, ControlResponse(1, None, bytes(32)))
            rpc.client.send(request)
            await until(lambda: len(rpc.responses) == 2)
            assert rpc.responses == [ControlResponse(1, None, bytes(32))] * 2 and len(rpc.handled) == 2
            for number in range(2, MAX_RESPONSES + 2):
                rpc.server.respond(peer, ControlResponse(number, None, None))
            rpc.client.send(request)
            await until(lambda: len(rpc.handled) == 3)

    play(scene())


def test_the_blocks_that_are_kept_for_repeated_requests_are_bounded_in_bytes(tmp_path: Path, play: Play) -> None:
    def sealed(number: int, size: int) -> BuildResponse:
        payload = msgspec.structs.replace(block(number=number), transactions=(bytes(size),))
        return BuildResponse(number, None, payload=payload)

    async def scene() -> None:
        rpc = Rpc(tmp_path)
        async with running_buses(rpc.buses):
            rpc.client.send(SealBlockRequest(1, bytes(8), 0, False))
            await until(lambda: len(rpc.handled) == 1)
            peer = rpc.handled[0][0]
            for number in range(1, 41):
                rpc.server.respond(peer, sealed(number, 1_000_000))
                assert rpc.server.responses.bytes <= MAX_RESPONSE_BYTES
            assert len(rpc.server.responses) == MAX_RESPONSE_BYTES // 1_001_072
            await until(lambda: len(rpc.responses) == 40)
            rpc.client.send(SealBlockRequest(40, bytes(8), 0, False))
            await until(lambda: len(rpc.responses) == 41)
            assert rpc.responses[-1] == rpc.responses[-2] and len(rpc.handled) == 1
            kept = rpc.server.responses.bytes
            rpc.server.respond(peer, sealed(41, MAX_RESPONSE_BYTES))
            assert rpc.server.responses.bytes == kept, "a block too large to keep drives out no other response"
            rpc.client.send(SealBlockRequest(41, bytes(8), 0, False))
            await until(lambda: len(rpc.handled) == 2)

    play(scene())
