"""The execution engine over HTTP: engine and eth namespaces with a fresh token, method versions by fork [ENG1 to
ENG10], and answers as the values that the machines take. An endpoint that is away is a TemporaryError."""

import time
from contextlib import suppress
from typing import Any

import jwt
import orjson

from rollup_node.stages.engine.api.engine_api import (
    BlockName,
    EngineAnswer,
    EngineCall,
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlock,
    GetBlockRef,
    GetBlockRefs,
    GetPayload,
    NewPayload,
    PayloadAnswer,
)
from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_from_json, payload_from_block_json
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.engine_json import (
    PayloadError,
    encode_attributes,
    encode_payload,
    envelope_from_json,
)
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.mpt import ProofError, verify_account
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Address, Hash, L2BlockRef

TOKEN_SECONDS = 5.0
NOT_FOUND = ("not found", "unknown block")
READ_AT_ONCE = 20
RPC = "engine-api"


class Token:
    """The bearer token, renewed when it is TOKEN_SECONDS old [OPT74]."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._made_at = float("-inf")
        self._headers: dict[str, str] = {}

    def headers(self) -> dict[str, str]:
        """The Authorization header."""
        now = time.time()
        if not 0 <= now - self._made_at < TOKEN_SECONDS:
            token = jwt.encode({"iat": int(now)}, self._secret, algorithm="HS256")
            self._headers = {"Authorization": f"Bearer {token}"}
            self._made_at = now
        return self._headers


class EngineClient:
    """Calls one engine; `timeout` in seconds. Without a `secret` only the eth namespace answers."""

    def __init__(
        self, url: str, secret: bytes | None, timeout: float, rollup: RollupConfig, meter: Meter | None = None
    ) -> None:
        headers = None if secret is None else Token(secret).headers
        self._rpc = JsonRpcClient(url, timeout=timeout, headers=headers, max_batch=READ_AT_ONCE)
        self._rollup = rollup
        self._schedule = rollup.schedule()
        self._meter = meter
        self._answered_at = time.monotonic()

    @property
    def silent(self) -> float:
        """Seconds since the engine last answered a call."""
        return time.monotonic() - self._answered_at

    async def close(self) -> None:
        """Closes the connections."""
        await self._rpc.close()

    # --- calls of the machines -------------------------------------------------------------------------------------

    async def ask(self, call: EngineCall) -> EngineAnswer:
        """Makes a call. Raises TemporaryError when the engine does not answer, or not as it should."""
        try:
            match call:
                case GetBlock():
                    return await self.payload(call.name)
                case GetBlockRef():
                    return await self._ref(call.name)
                case GetBlockRefs():
                    return await self._refs(call.first, call.last)
                case ForkchoiceUpdate():
                    return await self._update_forkchoice(call)
                case GetPayload():
                    return await self._get_payload(call)
            return await self._new_payload(call)
        except RpcFailure as failure:
            return ErrorAnswer(failure.code, failure.message[:500])
        except (PayloadError, HexError) as error:
            raise TemporaryError(f"the execution engine gave a malformed answer: {error}") from None

    async def _get_payload(self, call: GetPayload) -> ExecutionPayload:
        version = self._schedule.l2(call.timestamp).get_payload_version
        return envelope_from_json(await self._call(f"engine_getPayloadV{version}", to_hex(call.payload_id)))

    async def _update_forkchoice(self, call: ForkchoiceUpdate) -> ForkchoiceAnswer:
        version, attributes = 3, None
        if call.attributes is not None:
            version = self._schedule.l2(call.attributes.timestamp).attributes_version
            attributes = orjson.Fragment(encode_attributes(call.attributes))
        state = {
            "headBlockHash": to_hex(call.forkchoice.head),
            "safeBlockHash": to_hex(call.forkchoice.safe),
            "finalizedBlockHash": to_hex(call.forkchoice.finalized),
        }
        found = _object(await self._call(f"engine_forkchoiceUpdatedV{version}", state, attributes))
        status, error, _ = _status(found.get("payloadStatus"))
        payload_id = found.get("payloadId")
        return ForkchoiceAnswer(status, None if payload_id is None else from_hex(payload_id), error)

    async def _new_payload(self, call: NewPayload) -> PayloadAnswer:
        payload = call.payload
        version = self._schedule.l2(payload.timestamp).new_payload_version
        params: list[Any] = [orjson.Fragment(encode_payload(payload))]
        if version >= 3:
            params += [[], None if payload.parent_beacon_root is None else to_hex(payload.parent_beacon_root)]
        if version >= 4:
            params.append([])
        status, error, latest = _status(await self._call(f"engine_newPayloadV{version}", *params))
        return PayloadAnswer(status, error, latest)

    async def check_chain(self) -> None:
        """Raises TemporaryError when the engine is away, or on another chain."""
        try:
            found = from_quantity(await self._call("eth_chainId"), bits=256)
        except (RpcFailure, HexError) as error:
            raise TemporaryError(f"execution engine: {error}") from None
        if found != self._rollup.l2_chain_id:
            raise TemporaryError(f"execution engine: it is on chain {found}, not on {self._rollup.l2_chain_id}")

    # --- blocks ----------------------------------------------------------------------------------------------------

    async def _ref(self, name: BlockName) -> L2BlockRef | None:
        block = await self._block(name)
        try:
            return None if block is None else l2_ref_from_json(self._rollup, block)
        except BlockError as error:
            raise _unreadable(error) from None

    async def payload(self, name: BlockName) -> ExecutionPayload | None:
        """A block with its transactions, whose hash is checked; None if the engine has no such block. Raises
        TemporaryError when it does not answer or the block cannot be read."""
        block = await self._block(name)
        try:
            return None if block is None else payload_from_block_json(block)
        except BlockError as error:
            raise _unreadable(error) from None

    async def payloads(self, first: int, last: int) -> list[ExecutionPayload] | None:
        """The canonical blocks of a range, None if the engine lacks one of them. Raises TemporaryError when it does not
        answer or a block cannot be read."""
        found = await self._range(first, last)
        if len(found) < last - first + 1:
            return None
        try:
            return [payload_from_block_json(block) for block in found]
        except BlockError as error:
            raise _unreadable(error) from None

    async def _refs(self, first: int, last: int) -> tuple[L2BlockRef, ...]:
        """Of those canonical blocks of a range that the engine has and that can be read."""
        refs = []
        for block in await self._range(first, last):
            with suppress(BlockError):
                refs.append(l2_ref_from_json(self._rollup, block))
        return tuple(refs)

    async def _range(self, first: int, last: int) -> list[Any]:
        """The canonical blocks of a range that the engine has, in one batch."""
        calls = [("eth_getBlockByNumber", (hex(number), True)) for number in range(first, last + 1)]
        try:
            found = await self._rpc.batch(calls)
        except (EndpointError, RpcFailure) as error:
            raise TemporaryError(f"execution engine: {error}") from None
        self._answered_at = time.monotonic()
        return [block for block in found if block is not None and not isinstance(block, RpcFailure)]

    async def storage_root(self, address: Address, block: ExecutionPayload) -> Hash:
        """The storage root of an account in a block, proven against the block's state root. Raises TemporaryError when
        the engine returns no valid proof."""
        try:
            found = _object(await self._call("eth_getProof", to_hex(address), [], to_hex(block.block_hash)))
            proof = [from_hex(node) for node in found.get("accountProof") or ()]
            account = verify_account(block.state_root, address, proof)
        except (PayloadError, HexError, ProofError, TypeError) as error:
            raise TemporaryError(f"the execution engine gave an invalid proof: {error}") from None
        except RpcFailure as failure:
            raise TemporaryError(f"execution engine: {failure.message[:500]}") from None
        if account is None:
            raise TemporaryError(f"the account {to_hex(address)} is not in the state of block {block.block_number}")
        return account.storage_root

    async def _block(self, name: BlockName) -> Any:
        try:
            if isinstance(name, bytes):
                return await self._call("eth_getBlockByHash", to_hex(name), True)
            return await self._call("eth_getBlockByNumber", hex(name) if isinstance(name, int) else name, True)
        except RpcFailure as failure:
            if any(text in failure.message.lower() for text in NOT_FOUND):
                return None
            raise TemporaryError(f"execution engine: {failure.message[:500]} ({failure.code})") from None

    # --- one call --------------------------------------------------------------------------------------------------

    async def _call(self, method: str, *params: Any) -> Any:
        began = time.monotonic()
        outcome = "<nil>"
        try:
            answer = await self._rpc.call(method, *params)
            self._answered_at = time.monotonic()
            return answer
        except RpcFailure as failure:
            outcome = f"rpc_{failure.code}"
            raise
        except EndpointError as error:
            outcome = "<unknown>"
            hint = "; check that l2.jwt-secret is the engine's secret" if error.status in (401, 403) else ""
            raise TemporaryError(f"execution engine {error}{hint}") from None
        finally:
            self._count(method, time.monotonic() - began, outcome)

    def _count(self, method: str, seconds: float, outcome: str) -> None:
        if self._meter is not None:
            self._meter.count("rpc_client_requests_total", rpc=RPC, method=method)
            self._meter.observe("rpc_client_request_duration_seconds", seconds, rpc=RPC, method=method)
            self._meter.count("rpc_client_responses_total", rpc=RPC, method=method, error=outcome)


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise PayloadError(f"expected an object, got {type(found).__name__}")
    return found


def _status(found: Any) -> tuple[str, str | None, Hash | None]:
    status = _object(found)
    error, latest = status.get("validationError"), status.get("latestValidHash")
    return (
        str(status.get("status"))[:40],
        None if error is None else str(error)[:500],
        None if latest is None else hash_from_hex(latest),
    )


def _unreadable(error: BlockError) -> TemporaryError:
    return TemporaryError(f"the execution engine gave a block that cannot be read: {error}")
