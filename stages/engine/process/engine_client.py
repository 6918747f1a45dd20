"""The execution engine over HTTP, with a fresh token and method versions by fork [ENG1 to ENG10]."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import orjson

from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.engine_identity import (
    EngineIdentity,
    fork_doubts,
    identity_of_text,
    identity_of_versions,
)
from rollup_node.stages.engine.process import engine_answers as answers
from rollup_node.stages.io.http.credentials import RequestHeaders
from rollup_node.stages.io.http.endpoint_errors import (
    EndpointError,
    MalformedAnswerError,
    NoAnswerError,
    RpcFailure,
    tls_code,
)
from rollup_node.stages.io.http.endpoint_record import EndpointRecord, RpcMeter
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import ForkDoubt
from rollup_node.stages.protocol.block_refs import BlockError
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.engine_json import PayloadError, encode_attributes, encode_payload
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND, TemporaryError
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.mpt import AccountProof, ProofError
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import Address, Hash, L2BlockRef

T = TypeVar("T")

PRUNED = "pruned history"
NOT_FOUND = ("not found", "unknown block", PRUNED)
READ_AT_ONCE = 20
RPC = "engine-api"
BY_NUMBER = "eth_getBlockByNumber"
OWN_VERSION = {"code": "RN", "name": "rollup-node", "version": "", "commit": "0x00000000"}
"""This node in engine_getClientVersionV1."""

LISTED_VERSION = {**OWN_VERSION, "code": "LH"}
"""The same for an engine that reads no code but those of execution-apis' list, which has none for this node: op-reth
answers -32602 to all others, and says nothing of itself on another method of this port."""

TypedCall = Callable[..., Awaitable[Any]]
"""Makes one call: the type of its result, the method, its parameters. Raises RpcFailure where the engine answers with
an error."""


class UnreadableAnswerError(TemporaryError):
    """The engine has answered, and not with what the call asks for."""


class EngineClient:
    """Calls one engine, without a `secret` in the eth namespace alone; `timeout` in seconds."""

    def __init__(
        self,
        url: str,
        secret: bytes | None,
        timeout: float,
        rollup: RollupConfig,
        meter: Meter | None = None,
        record: EndpointRecord | None = None,
    ) -> None:
        self._meter = RpcMeter(meter, RPC)
        self._rpc = JsonRpcClient(
            url,
            timeout=timeout,
            headers=RequestHeaders(url, secret),
            max_batch=READ_AT_ONCE,
            long_answers=True,
            on_exchange=self._meter.exchanged,
            direct=True,
        )
        self._rollup = rollup
        self._schedule = rollup.schedule()
        self.record = record or EndpointRecord(RPC, self._rpc.name)
        self._answered_at = time.monotonic()
        self._encoded: tuple[PayloadAttributes | None, bytes] = None, b""
        self._sealed: tuple[ExecutionPayload | None, bytes] = None, b""

    @property
    def silent(self) -> float:
        """Seconds since the engine last answered a call."""
        return time.monotonic() - self._answered_at

    async def close(self) -> None:
        await self._rpc.close()

    # --- calls of the machines -------------------------------------------------------------------------------------

    async def ask(self, call: engine_api.EngineCall) -> engine_api.EngineAnswer:
        """Make a call. Raises TemporaryError when the engine does not answer, or not as it should."""
        try:
            match call:
                case engine_api.GetBlock():
                    return await self.payload(call.name)
                case engine_api.GetBlockRef():
                    return await self._ref(call.name)
                case engine_api.GetBlockRefs():
                    return await self._refs(call.first, call.last)
                case engine_api.ForkchoiceUpdate():
                    return await self._update_forkchoice(call)
                case engine_api.GetPayload():
                    return await self._get_payload(call)
                case engine_api.GetSyncProgress():
                    return await self._sync_progress()
                case engine_api.GetIdentity():
                    return await engine_identity(self._call)
            return await self._new_payload(call)
        except RpcFailure as failure:
            return engine_api.ErrorAnswer(failure.code, _message(failure))

    def encode_ahead(self, attributes: PayloadAttributes) -> None:
        """Encode attributes that will be sent soon; the last ones are kept."""
        if attributes is not self._encoded[0]:
            self._encoded = attributes, encode_attributes(attributes)

    async def _get_payload(self, call: engine_api.GetPayload) -> ExecutionPayload:
        version = self._schedule.l2(call.timestamp).get_payload_version
        method = f"engine_getPayloadV{version}"
        result = await self._call(answers.SealedEnvelope, method, to_hex(call.payload_id))
        try:
            payload = self._read(method, lambda: answers.payload_of_envelope(result))
        except MalformedJsonError as error:
            failure = MalformedAnswerError(self._rpc.name, str(error))
            self.record.failed(failure)
            raise self._error(failure) from None
        self._sealed = payload, bytes(result.execution_payload)
        return payload

    async def _update_forkchoice(self, call: engine_api.ForkchoiceUpdate) -> engine_api.ForkchoiceAnswer:
        version, attributes = 3, None
        if call.attributes is not None:
            version = self._schedule.l2(call.attributes.timestamp).attributes_version
            self.encode_ahead(call.attributes)
            attributes = orjson.Fragment(self._encoded[1])
        state = {
            "headBlockHash": to_hex(call.forkchoice.head),
            "safeBlockHash": to_hex(call.forkchoice.safe),
            "finalizedBlockHash": to_hex(call.forkchoice.finalized),
        }
        method = f"engine_forkchoiceUpdatedV{version}"
        result = await self._call(answers.ForkchoiceUpdated, method, state, attributes)
        return self._read(method, lambda: answers.forkchoice_answer(result))

    async def _new_payload(self, call: engine_api.NewPayload) -> engine_api.PayloadAnswer:
        payload = call.payload
        version = self._schedule.l2(payload.timestamp).new_payload_version
        sealed, text = self._sealed
        params: list[Any] = [orjson.Fragment(text if payload is sealed else encode_payload(payload))]
        if version >= 3:
            params += [[], None if payload.parent_beacon_root is None else to_hex(payload.parent_beacon_root)]
        if version >= 4:
            params.append([])
        method = f"engine_newPayloadV{version}"
        result = await self._call(answers.PayloadStatus, method, *params)
        return self._read(method, lambda: answers.payload_answer(result))

    async def _sync_progress(self) -> engine_api.SyncingBlocks:
        result = await self._call(bool | answers.Syncing, "eth_syncing")
        if not isinstance(result, bool):
            return self._read("eth_syncing", lambda: answers.syncing_blocks(result))
        text = await self._call(str, "eth_blockNumber")
        number = self._read("eth_blockNumber", lambda: from_quantity(text))
        return engine_api.SyncingBlocks(number, number)

    async def fork_doubts(self, network: str, now: float) -> list[ForkDoubt]:
        """Return the forks to come that the engine seems not to know. Raises TemporaryError."""
        identity = await engine_identity(self._call)
        return list(fork_doubts(self._rollup, identity, await chain_config(self._call), network, now))

    async def check_chain(self) -> None:
        """Raise TemporaryError when the engine is away, or on another chain."""
        text = await self._result(str, "eth_chainId")
        result = self._read("eth_chainId", lambda: from_quantity(text, bits=256))
        if result != self._rollup.l2_chain_id:
            raise self._error(f"it is on chain {result}, not on {self._rollup.l2_chain_id}")

    async def signal_versions(self, recommended: Hash, required: Hash) -> Hash | None:
        """Signal the versions of L1; return the engine's, None if it lacks the method [PRV3]. Raises TemporaryError."""
        method = "engine_signalSuperchainV1"
        versions = {"recommended": to_hex(recommended), "required": to_hex(required)}
        try:
            result = await self._call(str, method, versions)
        except RpcFailure as failure:
            if failure.code == METHOD_NOT_FOUND:
                return None
            raise self._error(failure) from None
        return self._read(method, lambda: hash_from_hex(result))

    # --- blocks ----------------------------------------------------------------------------------------------------

    async def _ref(self, name: engine_api.BlockName) -> L2BlockRef | None:
        block, method = await self._block(answers.BlockWithCalls, name)
        return None if block is None else self._read(method, lambda: answers.ref_of_block(self._rollup, block))

    async def payload(self, name: engine_api.BlockName) -> ExecutionPayload | None:
        """Return a block, whose hash is checked; None if the engine has no such block. Raises TemporaryError."""
        block, method = await self._block(answers.Block, name)
        return None if block is None else self._read(method, lambda: answers.payload_of_block(block))

    async def payloads(self, first: int, last: int) -> list[ExecutionPayload] | None:
        """Return the canonical blocks of a range, None if one is missing. Raises TemporaryError."""
        result = [block for block in await self._range(first, last, answers.Block | None) if block is not None]
        if len(result) < last - first + 1:
            return None
        return self._read(BY_NUMBER, lambda: [answers.payload_of_block(block) for block in result])

    async def _refs(self, first: int, last: int) -> tuple[L2BlockRef, ...]:
        """Return what the engine has and can be read of the canonical blocks of a range."""
        refs = []
        # Decoded one by one: a block that cannot be read does not hide the others of its batch.
        for result in await self._range(first, last, msgspec.Raw):
            with suppress(BlockError, MalformedJsonError):
                refs.append(answers.ref_of_result(self._rollup, result))
        return tuple(ref for ref in refs if ref is not None)

    async def _range(self, first: int, last: int, shape: Any) -> list[Any]:
        """Return the results for the canonical blocks of a range that are no errors, in one batch."""
        calls = [(BY_NUMBER, (hex(number), True)) for number in range(first, last + 1)]
        try:
            with self.record.timed(len(calls)):
                result = await self._rpc.batch(calls, shape)
        except (EndpointError, RpcFailure) as error:
            raise self._error(error) from None
        self._answered_at = time.monotonic()
        return [block for block in result if not isinstance(block, RpcFailure)]

    async def receipts(self, block_hash: Hash) -> list[msgspec.Raw] | None:
        """Return the receipts of a block, each as JSON text; None without the block. Raises TemporaryError."""
        method = "eth_getBlockReceipts"
        result: list[msgspec.Raw] | None = await self._result(list[msgspec.Raw] | None, method, to_hex(block_hash))
        return result

    async def storage_root(self, address: Address, block: ExecutionPayload) -> Hash:
        """Return the storage root of an account, proven against the block's state root. Raises TemporaryError."""
        method = "eth_getProof"
        result: AccountProof = await self._result(AccountProof, method, to_hex(address), [], to_hex(block.block_hash))
        account = self._read(method, lambda: result.account(block.state_root, address))
        if account is None:
            raise self._error(f"the account {to_hex(address)} is not in the state of block {block.block_number}")
        return account.storage_root

    async def _block(self, shape: Any, name: engine_api.BlockName) -> tuple[Any, str]:
        """Return a block or None, and the method; that of a label which is pruned is unreadable [STA18]."""
        method = "eth_getBlockByHash" if isinstance(name, bytes) else BY_NUMBER
        param = to_hex(name) if isinstance(name, bytes) else hex(name) if isinstance(name, int) else name
        try:
            return await self._call(shape | None, method, param, True), method
        except RpcFailure as failure:
            words = failure.message.lower()
            if isinstance(name, str) and PRUNED in words:
                raise UnreadableAnswerError(f"{self._error(failure)} (its {name} block)", Code.ENGINE_ANSWER) from None
            if any(text in words for text in NOT_FOUND):
                return None, method
            raise self._error(failure) from None

    # --- one call --------------------------------------------------------------------------------------------------

    async def _call(self, shape: Any, method: str, *params: Any) -> Any:
        try:
            with self._meter.timed(method), self.record.timed(is_answer=lambda error: isinstance(error, RpcFailure)):
                answer = await self._rpc.call_typed(shape, method, *params)
        except EndpointError as error:
            raise self._error(error) from None
        self._answered_at = time.monotonic()
        return answer

    async def _result(self, shape: Any, method: str, *params: Any) -> Any:
        """Make a call whose error is a TemporaryError."""
        try:
            return await self._call(shape, method, *params)
        except RpcFailure as failure:
            raise self._error(failure) from None

    def _read(self, method: str, convert: Callable[[], T]) -> T:
        """Return what a function makes of an answer. Raises UnreadableAnswerError if it cannot."""
        try:
            return convert()
        except (PayloadError, BlockError, HexError, ProofError) as error:
            text = f"the answer to {method} cannot be read: {error}"
            raise UnreadableAnswerError(str(self._error(text)), Code.ENGINE_ANSWER) from None

    def _error(self, what: object) -> TemporaryError:
        if isinstance(what, EndpointError):
            return TemporaryError(f"execution engine {what}", code_of(what))
        code = code_of(what) if isinstance(what, RpcFailure) else Code.ENGINE_ANSWER
        text = f"error {what.code}: {_message(what)}" if isinstance(what, RpcFailure) else what
        return TemporaryError(f"execution engine {self._rpc.name}: {text}", code)


def _message(failure: RpcFailure) -> str:
    """Return the text of an engine's error. The reason of an error of the Engine API is in its data."""
    reason = failure.data.get("err") if isinstance(failure.data, dict) else None
    has_reason = isinstance(reason, str) and one_line(reason) not in failure.message
    return one_line(f"{failure.message}: {reason}") if has_reason else failure.message


async def engine_identity(call: TypedCall) -> EngineIdentity | None:
    """Return who the engine says it is, or None. Raises what the call raises besides RpcFailure."""
    for method, params, read in (
        ("engine_getClientVersionV1", (OWN_VERSION,), identity_of_versions),
        ("engine_getClientVersionV1", (LISTED_VERSION,), identity_of_versions),
        ("web3_clientVersion", (), identity_of_text),
    ):
        result = await _or_none(call, method, *params)
        identity = read(result)
        if identity is not None:
            return identity
    return None


async def chain_config(call: TypedCall) -> dict[str, Any] | None:
    """Return the configuration that the engine executes by, None if it does not serve `debug_chainConfig`."""
    result = await _or_none(call, "debug_chainConfig")
    return result if isinstance(result, dict) else None


async def _or_none(call: TypedCall, method: str, *params: Any) -> Any:
    try:
        return await call(Any, method, *params)
    except RpcFailure:
        return None


TOKEN_CODES = frozenset({Code.ENGINE_AUTH, Code.ENGINE_CLOCK})

_TOKEN_WORDS = ("jwt", "token", "unauthorized", "authenticat")
_TIME_WORDS = ("stale", "expired", "future token", "iat ", "issued-at", "issued at", "used before issued")
_HOST_WORDS = ("invalid host", "host header", "host not allowed", "virtual host")


def code_of(failure: EndpointError | RpcFailure) -> Code:
    """Return the code of a failed call: of our token or host name, TLS, the answer, or none in time."""
    words, status = str(failure).lower(), getattr(failure, "status", None)
    if status in (400, 403) and any(item in words for item in _HOST_WORDS):
        return Code.ENGINE_VHOST
    is_answer = isinstance(failure, RpcFailure)
    rejected = any(item in words for item in _TOKEN_WORDS) if is_answer else status in (401, 403)
    if rejected:
        return Code.ENGINE_CLOCK if any(item in words for item in _TIME_WORDS) else Code.ENGINE_AUTH
    if isinstance(failure, RpcFailure):
        return (
            Code.ENGINE_PUBLIC_PORT if failure.code == METHOD_NOT_FOUND and "engine_" in words else Code.ENGINE_ANSWER
        )
    if isinstance(failure, NoAnswerError):
        return Code.ENGINE_SLOW
    return tls_code(str(failure)) or Code.ENGINE_UNREACHABLE
