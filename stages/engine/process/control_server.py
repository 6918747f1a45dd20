"""The requests of the rpc process: the admin calls, and the parts of output roots. A repeated request gets the first
response again; some responses come when what was requested has happened."""

from collections import OrderedDict
from collections.abc import Callable

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.core.inbox import AdminRequest
from rollup_node.stages.messages.control import ControlResponse, OutputRequest, OutputResponse

MAX_RESPONSES = 512


class ControlServer:
    """The server of `engine.control`; `handle` takes each request that has no response yet."""

    def __init__(self, bus: Bus, handle: Callable[[ProcessId, AdminRequest | OutputRequest], None]) -> None:
        self._handle = handle
        self._responses: OrderedDict[tuple[ProcessId, int], ControlResponse | OutputResponse] = OrderedDict()
        self._server = bus.serve("engine.control", self._take)

    def respond(self, peer: ProcessId, response: ControlResponse | OutputResponse) -> None:
        """Sends a response and keeps it for repeated requests."""
        self._responses[peer, response.id] = response
        while len(self._responses) > MAX_RESPONSES:
            self._responses.popitem(last=False)
        self._server.send(peer, response)

    def _take(self, peer: ProcessId, message: AdminRequest | OutputRequest) -> None:
        response = self._responses.get((peer, message.id))
        if response is None:
            self._handle(peer, message)
        else:
            self._server.send(peer, response)
