"""The conductor over HTTP [CND1 to CND3]. A conductor that is away, slow or refuses is a TemporaryError."""

import asyncio
import time
from typing import Any

import orjson

from rollup_node.stages.engine.calls.neighbour_api import (
    CommitPayload,
    Committed,
    ConductorAnswer,
    ConductorCall,
    Leadership,
)
from rollup_node.stages.io.http.endpoint_record import RpcMeter
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.engine_json import encode_payload
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload

ATTEMPTS = 2
PAUSE_SECONDS = 0.05
MAX_CALL_SECONDS = 30.0
MAX_ANSWER = 64 << 10
RPC = "conductor"


class ConductorClient:
    """Calls one conductor; `timeout` in seconds of a call with all its attempts, at most MAX_CALL_SECONDS [CND5].

    It connects with the first call."""

    def __init__(self, url: str, timeout: float, meter: Meter | None = None) -> None:
        self._timeout = min(timeout, MAX_CALL_SECONDS)
        self._meter = RpcMeter(meter, RPC)
        self._rpc = JsonRpcClient(url, timeout=self._timeout, max_body=MAX_ANSWER, on_exchange=self._meter.exchanged)

    @property
    def name(self) -> str:
        """Host and port of the conductor."""
        return self._rpc.name

    async def close(self) -> None:
        """Close the connections."""
        await self._rpc.close()

    async def ask(self, call: ConductorCall) -> ConductorAnswer:
        """Make a call. Raises TemporaryError when the conductor refuses it, or does not answer as it should."""
        if isinstance(call, CommitPayload):
            await self._call(Any, "conductor_commitUnsafePayload", encode_envelope(call.payload))
            return Committed()
        return Leadership(await self._call(bool, "conductor_leader"))

    async def _call(self, shape: Any, method: str, *params: Any) -> Any:
        left = self._timeout
        deadline = time.monotonic() + left
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._attempt(shape, method, params, left)
            except TemporaryError:
                left = deadline - time.monotonic() - PAUSE_SECONDS
                if attempt == ATTEMPTS or left <= 0:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def _attempt(self, shape: Any, method: str, params: tuple[Any, ...], timeout: float) -> Any:
        try:
            with self._meter.timed(method):
                return await self._rpc.call_typed(shape, method, *params, timeout=timeout)
        except RpcFailure as failure:
            raise TemporaryError(f"{self.name}: {failure}", Code.CONDUCTOR_UNREACHABLE) from None
        except EndpointError as error:
            raise TemporaryError(str(error), Code.CONDUCTOR_UNREACHABLE) from None


def encode_envelope(payload: ExecutionPayload) -> orjson.Fragment:
    """Return the envelope of the Engine API as JSON: the root is left out when there is none [CND1]."""
    root = payload.parent_beacon_root
    start = b"" if root is None else b'"parentBeaconBlockRoot":"%s",' % to_hex(root).encode()
    return orjson.Fragment(b'{%s"executionPayload":%s}' % (start, encode_payload(payload)))
