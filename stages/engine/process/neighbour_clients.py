"""The conductor [CND1 to CND3] and the follow source [FSR1, FSR8] over HTTP; one that fails is a TemporaryError."""

import asyncio
import time
from typing import Annotated, Any

import msgspec
import orjson

from rollup_node.stages.engine.calls import calls
from rollup_node.stages.io.http import jsonrpc
from rollup_node.stages.io.http.endpoint_errors import (
    AnswerTooLargeError,
    EndpointError,
    MalformedAnswerError,
    RpcFailure,
)
from rollup_node.stages.io.http.endpoint_record import RpcMeter
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.engine_json import encode_payload
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND, TemporaryError
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex, to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

ATTEMPTS = 2
PAUSE_SECONDS = 0.05
MAX_CALL_SECONDS = 30.0
MAX_ANSWER = 64 << 10
RPC = "conductor"


class NeighbourClient:
    """Calls one neighbour over JSON-RPC; `timeout` in seconds. It connects with the first call."""

    def __init__(self, kind: str, url: str, timeout: float, meter: Meter | None) -> None:
        self._meter = RpcMeter(meter, kind)
        self._rpc = jsonrpc.JsonRpcClient(url, timeout=timeout, max_body=MAX_ANSWER, on_exchange=self._meter.exchanged)
        self.name = self._rpc.name

    async def close(self) -> None:
        await self._rpc.close()


class ConductorClient(NeighbourClient):
    """Calls one conductor; `timeout` in seconds with all attempts, at most MAX_CALL_SECONDS [CND5]."""

    def __init__(self, url: str, timeout: float, meter: Meter | None = None) -> None:
        self._timeout = min(timeout, MAX_CALL_SECONDS)
        super().__init__(RPC, url, self._timeout, meter)

    async def ask(self, call: calls.ConductorCall) -> bool:
        """Make a call; whether this node leads, or True for a commit.

        Raises TemporaryError when the conductor refuses it, or does not answer as it should."""
        if isinstance(call, calls.CommitPayload):
            await self._call(Any, "conductor_commitUnsafePayload", encode_envelope(call.payload))
            return True
        return bool(await self._call(bool, "conductor_leader"))

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


FOLLOW_RPC = "follow-source-api"

_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Id(msgspec.Struct):
    hash: str
    number: _Number


class _L2Ref(msgspec.Struct):
    hash: str
    number: _Number
    parent_hash: str = msgspec.field(name="parentHash")
    timestamp: _Number
    origin: _Id = msgspec.field(name="l1origin")
    sequence_number: _Number = msgspec.field(name="sequenceNumber")


class _SyncStatus(msgspec.Struct):
    current_l1: _Id
    local_safe_l2: _L2Ref
    safe_l2: _L2Ref
    finalized_l2: _L2Ref


class _Genesis(msgspec.Struct):
    l2: _Id


class _RollupConfig(msgspec.Struct):
    l2_chain_id: _Number
    genesis: _Genesis


class FollowClient(NeighbourClient):
    """Calls one node; `timeout` in seconds of one call. It connects with the first call."""

    def __init__(self, url: str, timeout: float, rollup: RollupConfig, meter: Meter | None = None) -> None:
        super().__init__(FOLLOW_RPC, url, timeout, meter)
        self._rollup = rollup
        self._chain_checked = False

    async def status(self, *, check_chain: bool = False) -> calls.FollowStatus:
        """Return the heads of the node, whose chain was checked before. Raises FollowClientError."""
        if check_chain or not self._chain_checked:
            await self.check_chain()
        try:
            result = await self._call(_SyncStatus, "optimism_syncStatus")
            current = _block_id(result.current_l1)
            refs = _l2_ref(result.local_safe_l2), _l2_ref(result.safe_l2), _l2_ref(result.finalized_l2)
        except HexError as error:
            raise self._malformed("optimism_syncStatus", error) from None
        return calls.FollowStatus(current if any(current.hash) else None, *refs)

    async def check_chain(self) -> bool:
        """Check chain id and genesis; False if the node does not serve its config. Raises FollowClientError."""
        try:
            result = await self._call(_RollupConfig, "optimism_rollupConfig")
            genesis = hash_from_hex(result.genesis.l2.hash)
        except RpcFailure:
            self._chain_checked = True
            return False
        except HexError as error:
            raise self._malformed("optimism_rollupConfig", error) from None
        ours = self._rollup
        if (result.l2_chain_id, genesis) != (ours.l2_chain_id, ours.genesis.l2.hash):
            self._chain_checked = False
            raise WrongChainError(
                calls.FollowReason.WRONG_CHAIN,
                f"{self.name} is on L2 chain {result.l2_chain_id} with genesis {to_hex(genesis)}, "
                f"but this node is on {ours.l2_chain_id} with {to_hex(ours.genesis.l2.hash)}",
                Code.FOLLOW_CHAIN,
            )
        self._chain_checked = True
        return True

    async def _call(self, shape: Any, method: str) -> Any:
        try:
            with self._meter.timed(method):
                return await self._rpc.call_typed(shape, method)
        except RpcFailure as failure:
            if failure.code == METHOD_NOT_FOUND and method == "optimism_rollupConfig":
                raise
            self._chain_checked = False
            raise FollowClientError(calls.FollowReason.RPC_ERROR, f"{self.name}: {method}: {failure}") from None
        except EndpointError as error:
            self._chain_checked = False
            raise FollowClientError(_reason(error), str(error)) from None

    def _malformed(self, method: str, error: HexError) -> "FollowClientError":
        self._chain_checked = False
        return FollowClientError(
            calls.FollowReason.MALFORMED, f"{self.name}: the answer to {method} is malformed: {error}"
        )


class FollowClientError(TemporaryError):
    """The node does not answer, or not with what was asked for."""

    code: Code

    def __init__(self, reason: calls.FollowReason, text: str, code: Code = Code.FOLLOW_UNREACHABLE) -> None:
        super().__init__(text, code)
        self.reason = reason


class WrongChainError(FollowClientError):
    """The node is of another chain. Temporary while the node runs: another node may answer under the same URL."""


def _reason(error: EndpointError) -> calls.FollowReason:
    if isinstance(error, MalformedAnswerError | AnswerTooLargeError):
        return calls.FollowReason.MALFORMED
    return calls.FollowReason.NO_ANSWER if error.status is None else calls.FollowReason.HTTP_STATUS


def _block_id(ref: _Id) -> BlockId:
    return BlockId(ref.number, hash_from_hex(ref.hash))


def _l2_ref(ref: _L2Ref) -> L2BlockRef:
    return L2BlockRef(
        hash_from_hex(ref.hash),
        ref.number,
        hash_from_hex(ref.parent_hash),
        ref.timestamp,
        _block_id(ref.origin),
        ref.sequence_number,
    )
