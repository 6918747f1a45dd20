"""The requests of the rpc process: admin calls, blocks to build, the parts of output roots, and safe heads.

A repeated request gets the first response again; some responses come when what was requested has happened."""

from collections.abc import Callable

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.core.inbox import RpcRequest
from rollup_node.stages.messages.control import BuildResponse, ControlResponse, OutputResponse, SafeHeadResponse
from rollup_node.stages.protocol.bounded_cache import BoundedCache

MAX_RESPONSES = 512
MAX_RESPONSE_BYTES = 16 << 20
RESPONSE_BYTES = 1024
"""What a response takes without transactions and text."""

TRANSACTION_BYTES = 48
"""What a transaction takes beside its bytes."""

RpcResponse = ControlResponse | OutputResponse | SafeHeadResponse | BuildResponse


class ControlServer:
    """The server of `engine.control`; `handle` takes each request that has no response yet."""

    def __init__(self, bus: Bus, handle: Callable[[ProcessId, RpcRequest], None]) -> None:
        self._handle = handle
        self.responses: BoundedCache[tuple[ProcessId, int], RpcResponse] = BoundedCache(
            MAX_RESPONSE_BYTES, MAX_RESPONSES, keeps_newest=False
        )
        self._server = bus.serve("engine.control", self._take)

    def respond(self, peer: ProcessId, response: RpcResponse) -> None:
        """Send a response and keep it for repeated requests, unless it is a block that is too large."""
        self.responses.put((peer, response.id), response, _size(response))
        self._server.send(peer, response)

    def refuse(self, peer: ProcessId, number: int, error: str) -> None:
        """Answer an admin call with an error."""
        self.respond(peer, ControlResponse(number, error, None))

    def _take(self, peer: ProcessId, message: RpcRequest) -> None:
        response = self.responses.get((peer, message.id))
        if response is None:
            self._handle(peer, message)
        else:
            self._server.send(peer, response)


def _size(response: RpcResponse) -> int:
    """Return the bytes of memory that a response takes, about."""
    size = RESPONSE_BYTES + len(response.error or "")
    if isinstance(response, BuildResponse) and response.payload is not None:
        size += sum(TRANSACTION_BYTES + len(transaction) for transaction in response.payload.transactions)
    return size
