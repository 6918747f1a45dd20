"""References of L1 blocks for searches and checks: many headers at once, as the endpoint has them at this moment."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import BehindError, L1Endpoint, L1Endpoints, code_of, describe_error
from rollup_node.stages.l1.proof import Proof, Standing
from rollup_node.stages.l1.verify import InvalidDataError, verify_block_ref
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.types import L1BlockRef

MAX_REFS = 128
RATE_LIMIT_SECONDS = 5.0
"""One response takes at most the requests that the rate limit allows in this time."""

IDLE_SECONDS = 30.0
MAX_PENDING = 8


class RefsReader:
    """Answers requests, oldest first; `wake` schedules a `step`.

    Requests beyond MAX_PENDING are ignored: clients repeat them. With `proof` none is answered that is forged, or not
    linked to the proven head yet [LCP15]."""

    def __init__(
        self,
        config: L1Config,
        endpoints: L1Endpoints,
        wake: Callable[[], None],
        proof: Proof | None = None,
    ) -> None:
        self._proof = proof
        self._trust, self._endpoints, self._wake = config.trust_rpc, endpoints, wake
        allowed = int(config.rate_limit * RATE_LIMIT_SECONDS) or 1
        self._max_refs = min(MAX_REFS, allowed) if config.rate_limit > 0 else MAX_REFS
        self._pending: deque[tuple[ProcessId, L1RefsRequest]] = deque()

    def request(self, client: ProcessId, request: L1RefsRequest) -> None:
        """Take a request; one that is pending already is answered once."""
        if (client, request) not in self._pending and len(self._pending) < MAX_PENDING:
            self._pending.append((client, request))
            self._wake()

    async def step(self, send: Callable[[ProcessId, L1RefsResponse], Any]) -> float:
        """Send the responses to all pending requests; the seconds until the next step."""
        while self._pending:
            client, request = self._pending[0]
            response = await self._read(request)
            self._pending.popleft()
            send(client, response)
        return IDLE_SECONDS

    async def _read(self, request: L1RefsRequest) -> L1RefsResponse:
        first = max(0, request.last - min(max(request.count, 1), self._max_refs) + 1)
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            blocks = await endpoint.headers_json(range(first, request.last + 1))
            refs = linked_refs(blocks, request.last, self._trust)
            problem = None if self._proof is None else check_refs(self._proof, refs)
            return L1RefsResponse(request.last, () if problem else refs, problem)
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            if endpoint is not None:
                self._endpoints.failed(endpoint, error)
            return L1RefsResponse(request.last, (), Problem(code_of(error), "", describe_error(endpoint, error)))


def check_refs(proof: Proof, refs: Sequence[L1BlockRef]) -> Problem | None:
    """Return why references cannot be used yet. Raises InvalidDataError for one of a block that is not the proven."""
    for ref in refs:
        standing = proof.standing(ref.number, ref.hash)
        if standing is Standing.FORGED:
            raise InvalidDataError(f"its block {ref} is not the one that is proven")
        if standing is Standing.REPLACED:
            raise BehindError(f"its block {ref} was replaced in a reorg")
        if standing is Standing.WAITING:
            return Problem(Code.L1_UNPROVEN, "", f"block {ref.number} is not linked to the proven head yet")
        if standing is Standing.BEYOND:
            return Problem(Code.L1_UNPROVEN, "", f"block {ref.number} is not proven yet")
    return None


def linked_refs(blocks: Sequence[Any], last: int, trust: bool) -> tuple[L1BlockRef, ...]:
    """Return the verified references of the JSON-RPC blocks that link to number `last`, in ascending order.

    Raises InvalidDataError for a malformed block or one of another number."""
    refs: list[L1BlockRef] = []
    for block in reversed(blocks):
        if block is None:
            break
        ref = verify_block_ref(block, trust)
        if ref.number != last - len(refs):
            raise InvalidDataError(f"requested block {last - len(refs)}, got {ref}")
        if refs and refs[-1].parent_hash != ref.hash:
            break
        refs.append(ref)
    return tuple(reversed(refs))
