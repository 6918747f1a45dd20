"""The requests of the rpc process: admin calls, blocks to build, the parts of output roots, and safe heads.

A repeated request gets the first response again; some responses come when what was requested has happened."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.core.inbox import RpcRequest
from rollup_node.stages.messages.control import BuildResponse, ControlResponse, OutputResponse, SafeHeadResponse

MAX_RESPONSES = 512
MAX_RESPONSE_BYTES = 16 << 20
RESPONSE_BYTES = 1024
"""What a response takes without transactions and text."""

TRANSACTION_BYTES = 48
"""What a transaction takes beside its bytes."""

RpcResponse = ControlResponse | OutputResponse | SafeHeadResponse | BuildResponse
R = TypeVar("R")
Key = tuple[ProcessId, int]


class ResponseCache(Generic[R]):
    """The last responses, at most `most` of them and `most_bytes` in all.

    One that is larger alone is not kept, and its repeated request is handled again."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._responses: OrderedDict[Key, tuple[R, int]] = OrderedDict()
        self.size = 0
        """Bytes of all responses kept."""

    def __len__(self) -> int:
        return len(self._responses)

    def get(self, key: Key) -> R | None:
        """Return the response to a request, if it is kept."""
        result = self._responses.get(key)
        return None if result is None else result[0]

    def add(self, key: Key, response: R, size: int) -> None:
        """Keep a response of `size` bytes in place of the oldest ones."""
        self.size -= self._responses.pop(key, (None, 0))[1]
        if size > self._most_bytes:
            return
        self._responses[key] = response, size
        self.size += size
        while len(self._responses) > self._most or self.size > self._most_bytes:
            _, (_, dropped) = self._responses.popitem(last=False)
            self.size -= dropped


class ControlServer:
    """The server of `engine.control`; `handle` takes each request that has no response yet."""

    def __init__(self, bus: Bus, handle: Callable[[ProcessId, RpcRequest], None]) -> None:
        self._handle = handle
        self.responses: ResponseCache[RpcResponse] = ResponseCache(MAX_RESPONSES, MAX_RESPONSE_BYTES)
        self._server = bus.serve("engine.control", self._take)

    def respond(self, peer: ProcessId, response: RpcResponse) -> None:
        """Send a response and keep it for repeated requests, unless it is a block that is too large."""
        self.responses.add((peer, response.id), response, _size(response))
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
