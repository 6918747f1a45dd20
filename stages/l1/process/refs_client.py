"""References of L1 blocks for searches and checks: many headers at once, each time as the endpoint has them now."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.verify import InvalidDataError, block_ref
from rollup_node.stages.messages.l1 import L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.types import L1BlockRef

MOST_AT_ONCE = 128
RATED_SECONDS = 5.0
"""Under a rate limit no more is fetched for one answer than it allows in so long."""

IDLE_SECONDS = 30.0
MOST_WAITING = 8


class RefsReader:
    """Answers what waits, oldest first; `wake` asks for a `step`. What finds no room is lost, and asked for again."""

    def __init__(self, config: L1Config, endpoints: L1Endpoints, wake: Callable[[], None]) -> None:
        self._trust, self._endpoints, self._wake = config.trust_rpc, endpoints, wake
        rated = int(config.rate_limit * RATED_SECONDS) or 1
        self._most = min(MOST_AT_ONCE, rated) if config.rate_limit > 0 else MOST_AT_ONCE
        self._waiting: deque[tuple[ProcessId, L1RefsRequest]] = deque()

    def ask(self, peer: ProcessId, want: L1RefsRequest) -> None:
        """Takes a question; one that waits already is answered once."""
        if (peer, want) not in self._waiting and len(self._waiting) < MOST_WAITING:
            self._waiting.append((peer, want))
            self._wake()

    async def step(self, send: Callable[[ProcessId, L1RefsResponse], Any]) -> float:
        """Answers everything that waits now, by `send`."""
        while self._waiting:
            peer, want = self._waiting[0]
            found = await self._read(want)
            self._waiting.popleft()
            send(peer, found)
        return IDLE_SECONDS

    async def _read(self, want: L1RefsRequest) -> L1RefsResponse:
        first = max(0, want.last - min(max(want.count, 1), self._most) + 1)
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            blocks = await endpoint.headers_json(range(first, want.last + 1))
            return L1RefsResponse(want.last, linked(blocks, want.last, self._trust), None)
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            if endpoint is not None:
                self._endpoints.failed(endpoint, error)
            told = str(error) if endpoint is None or isinstance(error, EndpointError) else f"{endpoint.name}: {error}"
            return L1RefsResponse(want.last, (), told)


def linked(blocks: Sequence[Any], last: int, trust: bool) -> tuple[L1BlockRef, ...]:
    """The verified references of the blocks that end with number `last` and link to it, in order."""
    refs: list[L1BlockRef] = []
    for block in reversed(blocks):
        if block is None:
            break
        ref = block_ref(block, trust)
        if ref.number != last - len(refs):
            raise InvalidDataError(f"asked for block {last - len(refs)}, got {ref}")
        if refs and refs[-1].parent_hash != ref.hash:
            break
        refs.append(ref)
    return tuple(reversed(refs))
