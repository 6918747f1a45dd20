"""The requests of the rpc process: admin calls, blocks to build, the parts of output roots, and safe heads. A repeated
request gets the first response again; some responses come when what was requested has happened."""

from collections import OrderedDict
from collections.abc import Callable

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.core.inbox import RpcRequest
from rollup_node.stages.messages.control import BuildResponse, ControlResponse, OutputResponse, SafeHeadResponse

MAX_RESPONSES = 512

RpcResponse = ControlResponse | OutputResponse | SafeHeadResponse | BuildResponse


class ControlServer:
    """The server of `engine.control`; `handle` takes each request that has no response yet."""

    def __init__(self, bus: Bus, handle: Callable[[ProcessId, RpcRequest], None]) -> None:
        self._handle = handle
        self._responses: OrderedDict[tuple[ProcessId, int], RpcResponse] = OrderedDict()
        self._server = bus.serve("engine.control", self._take)

    def respond(self, peer: ProcessId, response: RpcResponse) -> None:
        """Sends a response and keeps it for repeated requests."""
        self._responses[peer, response.id] = response
        while len(self._responses) > MAX_RESPONSES:
            self._responses.popitem(last=False)
        self._server.send(peer, response)

    def refuse(self, peer: ProcessId, number: int, error: str) -> None:
        """Answers an admin call with an error."""
        self.respond(peer, ControlResponse(number, error, None))

    def _take(self, peer: ProcessId, message: RpcRequest) -> None:
        response = self._responses.get((peer, message.id))
        if response is None:
            self._handle(peer, message)
        else:
            self._server.send(peer, response)
