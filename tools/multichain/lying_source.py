"""A source that lies to the sequencer that follows it: a supernode's answers, now and then with other heads.

The lies take turns, and the truth comes between them [FSR2, FSR3, FSR6, FSR7, FSR10]."""

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application

HEADS = ("local_safe_l2", "safe_l2", "finalized_l2")
ZERO = to_hex(bytes(32))

Status = Mapping[str, Any]


def _with_heads(status: Status, heads: tuple[str, ...], change: Callable[[dict[str, Any]], dict[str, Any]]) -> Status:
    return {**status, **{name: status[name] | change(status[name]) for name in heads}}


def _another(head: Mapping[str, Any]) -> dict[str, Any]:
    return {"hash": to_hex(keccak256(head["hash"].encode()))}


class LyingSource:
    """Serves the status of `upstream`, the path of a chain at a supernode; `lies` counts the answers that are none.

    `lie` is what the answers have now, None for the truth."""

    def __init__(self, upstream: str, block_time: int) -> None:
        self._client, self._block_time = JsonRpcClient(upstream, timeout=5.0), block_time
        names = ("optimism_rollupConfig", "optimism_version")
        methods: dict[str, Any] = {name: lambda name=name: self._ask(name) for name in names}
        self._listener = Listener(application(JsonRpc({**methods, "optimism_syncStatus": self._status})), 0)
        self._first: Status | None = None
        self._turns = cycle(LIES)
        self.lie: str | None = None
        self.lies = 0

    @property
    def url(self) -> str:
        """Where it listens once it is started."""
        return self._listener.url

    async def start(self) -> None:
        """Listen on a free port."""
        await self._listener.start()

    async def close(self) -> None:
        """Close all connections."""
        await self._listener.stop()
        await self._client.close()

    def turn(self) -> None:
        """Tell the next lie, or the truth after one."""
        self.lie = next(self._turns) if self.lie is None else None

    async def _ask(self, method: str) -> Any:
        try:
            return await self._client.call(method)
        except (EndpointError, RpcFailure) as error:
            raise JsonRpcError(SERVER_ERROR, str(error)) from None

    async def _status(self) -> Any:
        status: Status = await self._ask("optimism_syncStatus")
        if self._first is None and status["finalized_l2"]["hash"] != ZERO:
            self._first = status
        if self.lie is None or status["local_safe_l2"]["hash"] == ZERO:
            return status
        self.lies += 1
        return LIES[self.lie](self, status)

    def _next_block(self, status: Status) -> Status:
        """Return the status with a block that nobody has, one after the local safe head."""
        head = status["local_safe_l2"]
        place = {"number": head["number"] + 1, "timestamp": head["timestamp"] + self._block_time}
        block = {**head, **_another(head), **place, "parentHash": head["hash"]}
        return {**status, "local_safe_l2": block, "safe_l2": block}

    def _other_blocks(self, status: Status) -> Status:
        return _with_heads(status, HEADS, _another)

    def _zeros(self, status: Status) -> Status:
        return _with_heads(status, HEADS, lambda head: {"hash": ZERO, "number": 0})

    def _swapped(self, status: Status) -> Status:
        return {**status, "safe_l2": status["local_safe_l2"], "local_safe_l2": status["finalized_l2"]}

    def _old(self, status: Status) -> Status:
        return status if self._first is None else self._first

    def _error(self, status: Status) -> Status:
        raise JsonRpcError(SERVER_ERROR, "not now")


LIES: dict[str, Callable[[LyingSource, Status], Any]] = {
    "a block that nobody has": LyingSource._next_block,
    "other blocks": LyingSource._other_blocks,
    "heads of zeros": LyingSource._zeros,
    "heads in another order": LyingSource._swapped,
    "the first status again": LyingSource._old,
    "no status": lambda source, status: None,
    "an error": LyingSource._error,
}
"""What can be told in place of the truth."""
