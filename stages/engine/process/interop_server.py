"""The server of `engine.interop`: events and calls, with the results of op-node [IOP5 to IOP20]."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.calls.engine_api import BlockName, ErrorAnswer, GetBlockRef, show_block
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core import interop as decisions
from rollup_node.stages.engine.process.bus_clients import L1Client
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.engine.process.reads import Reader
from rollup_node.stages.engine.starts.start_search import MAX_REORG_LOOKBACKS, sync_lookback
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.messages.control import OutputRequest
from rollup_node.stages.messages.interop import (
    DECISIONS,
    InteropEvents,
    InteropEventsRequest,
    InteropRequest,
    InteropResponse,
)
from rollup_node.stages.protocol import types
from rollup_node.stages.protocol.block_refs import (
    BlockError,
    l2_ref_object,
    l2_ref_of_payload,
    output_object,
    ref_object,
)
from rollup_node.stages.protocol.bounded_cache import BoundedCache
from rollup_node.stages.protocol.deposits import DepositError, decode_deposit, invalidated_block_deposit, is_deposit
from rollup_node.stages.protocol.errors import INTERNAL_ERROR, SERVER_ERROR, TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, output_preimage

BLOCK_NOT_FOUND = -39001
CONFLICTING_BLOCK = -39002
INTEROP_INACTIVE = -39003
MAX_CALLS = 64
MAX_READS = 48
"""Reads begin only while fewer calls run: those that nobody waits for any more must not keep decisions out."""

RESETS = ("reset", "resetPreInterop")
MAX_RECEIPTS = 4
"""Calls for the receipts of a block at the same time; an answer may have many megabytes."""

MAX_RESPONSES = 128
MAX_RESPONSE_BYTES = 1 << 20
RESPONSE_BYTES = 256
"""What a response takes without its texts."""

RESET_TARGETS = ("unsafe", "cross-unsafe", "safe", "cross-safe", "finalized")


PREIMAGE_BYTES = 128
_WITH_MIN_BASE_FEE = 17


class InteropError(Exception):
    """An error response; `data` is a JSON value."""

    def __init__(self, text: str, code: int = SERVER_ERROR, data: Any = None) -> None:
        super().__init__(text)
        self.code, self.data = code, data


class InteropServer:
    """`decide` applies a decision for which blocks were read after so many resets; `reset_count` counts them.

    Decisions run one after another in the order of their arrival, resets at once, and a repeated one gets the first
    response again; reads run at the same time and are not kept [IOP31]."""

    def __init__(
        self,
        config: EngineConfig,
        bus: Bus,
        client: EngineClient,
        reader: Reader,
        l1: L1Client,
        interop: decisions.Interop,
        decide: Callable[[decisions.Decision, int], None],
        reset_count: Callable[[], int],
    ) -> None:
        self._rollup, self._client, self._reader, self._l1 = config.rollup, client, reader, l1
        self._interop, self._decide, self._reset_count = interop, decide, reset_count
        self._subscriber: ProcessId | None = None
        self._sent = 0
        self.responses: BoundedCache[tuple[ProcessId, int], InteropResponse] = BoundedCache(
            MAX_RESPONSE_BYTES, MAX_RESPONSES, keeps_newest=False
        )
        self._in_order, self._resets = asyncio.Lock(), asyncio.Lock()
        self._receipts = asyncio.Semaphore(MAX_RECEIPTS)
        self._calls: dict[tuple[ProcessId, int], asyncio.Task[None]] = {}
        self._methods: dict[str, Callable[[InteropRequest], Awaitable[Any]]] = {
            "updateCrossUnsafe": partial(self._promote, label="unsafe"),
            "updateCrossSafe": partial(self._promote, label="safe"),
            "updateFinalized": partial(self._promote, label="finalized"),
            "invalidateBlock": self._invalidate_block,
            "anchorPoint": self._anchor_point,
            "reset": self._reset,
            "resetPreInterop": self._reset_pre_interop,
            "provideL1": self._provide_l1,
            "fetchReceipts": self._fetch_receipts,
            "l2BlockRefByNumber": self._ref_by_number,
            "l2BlockRefByTimestamp": self._ref_by_timestamp,
            "outputV0AtTimestamp": self._output,
            "pendingOutputV0AtTimestamp": self._pending_output,
        }
        self._server = bus.serve("engine.interop", self._take)

    def send_events(self) -> None:
        """Send the events that were not sent to the rpc process yet."""
        fresh = tuple((number, event) for number, event in self._interop.events if number > self._sent)
        if fresh and self._subscriber is not None:
            self._sent = fresh[-1][0]
            self._server.send(self._subscriber, InteropEvents(fresh))

    async def close(self) -> None:
        """Cancel the calls that run."""
        await cancel_all(self._calls.values())

    # --- messages --------------------------------------------------------------------------------------------------

    def _take(self, peer: ProcessId, message: InteropEventsRequest | InteropRequest) -> None:
        if isinstance(message, InteropEventsRequest):
            self._subscriber, self._sent = peer, message.after
            self.send_events()
            return
        key = (peer, message.id)
        if (response := self.responses.get(key)) is not None:
            self._server.send(peer, response)
        elif key not in self._calls and len(self._calls) < (MAX_CALLS if message.method in DECISIONS else MAX_READS):
            self._calls[key] = asyncio.create_task(self._call(key, message), name=f"interop_{message.method}")

    async def _call(self, key: tuple[ProcessId, int], request: InteropRequest) -> None:
        try:
            if request.method in DECISIONS:
                response = await self._answer_in_order(request)
                self.responses.put(key, response, _size(response))
            else:
                response = await self._answer(request)
        finally:
            del self._calls[key]
        self._server.send(key[0], response)

    async def _answer_in_order(self, request: InteropRequest) -> InteropResponse:
        """Answer a reset at once: decisions whose blocks are still being read become void [IOP28]."""
        if request.method in RESETS:
            async with self._resets:
                return await self._answer(request)
        async with self._in_order:
            async with self._resets:
                pass
            return await self._answer(request)

    async def _answer(self, request: InteropRequest) -> InteropResponse:
        method = self._methods.get(request.method)
        try:
            if method is None:
                raise InteropError(f"the engine process has no method {request.method}")
            return InteropResponse(request.id, msgspec.json.encode(await method(request)))
        except InteropError as error:
            data = None if error.data is None else msgspec.json.encode(error.data)
            return InteropResponse(request.id, b"null", str(error), error.code, data)
        except (TemporaryError, BlockError) as error:
            return InteropResponse(request.id, b"null", str(error), SERVER_ERROR)

    # --- decisions -------------------------------------------------------------------------------------------------

    async def _promote(self, request: InteropRequest, label: Literal["unsafe", "safe", "finalized"]) -> None:
        count = self._reset_count()
        block = await self._block(request.blocks[0].hash)
        source = await self._l1_block(request.blocks[1]) if label == "safe" else None
        self._decide(decisions.Promote(label, block, source), count)

    async def _invalidate_block(self, request: InteropRequest) -> None:
        count = self._reset_count()
        payload = await self._payload(request.blocks[0].hash, "failed to get block")
        try:
            parent = await self._ref(payload.parent_hash)
        except InteropError as error:
            raise InteropError(f"failed to get parent of invalidated block: {error}") from None
        invalidated = l2_ref_of_payload(self._rollup, payload)
        self._decide(decisions.Invalidate(invalidated, parent, replacement_attributes(payload)), count)

    async def _provide_l1(self, request: InteropRequest) -> None:
        if request.l1 is not None:
            self._decide(decisions.ProvideL1(request.l1), self._reset_count())

    async def _reset_pre_interop(self, request: InteropRequest) -> None:
        self._decide(decisions.ForceStart(None), self._reset_count())

    async def _reset(self, request: InteropRequest) -> None:
        result = [await self._target(*item) for item in zip(request.blocks, RESET_TARGETS, strict=True)]
        unsafe, cross_unsafe, safe, cross_safe, finalized = result
        await self._check_depth(unsafe)
        self._decide(
            decisions.ForceStart(Heads(unsafe, safe, safe, finalized, cross_safe, cross_unsafe)), self._reset_count()
        )

    async def _target(self, block: types.BlockId, name: str) -> types.L2BlockRef:
        """Return a block to reset to, which must be canonical."""
        result = await self._ask(block.number)
        if isinstance(result, str):
            raise InteropError("failed to find block reference", INTERNAL_ERROR, name)
        if result is None:
            raise InteropError(f"{name} reset target not found", BLOCK_NOT_FOUND)
        if result.hash != block.hash:
            raise InteropError("conflicting block", CONFLICTING_BLOCK, l2_ref_object(result))
        return result

    async def _check_depth(self, unsafe: types.L2BlockRef) -> None:
        tip = await self._ask("latest")
        if not isinstance(tip, types.L2BlockRef):
            raise InteropError(f"failed to get previous unsafe block: {tip or 'not found'}")
        if unsafe.l1_origin.number + MAX_REORG_LOOKBACKS * sync_lookback(self._rollup) < tip.l1_origin.number:
            shown = f"L2 block {show_block(unsafe)}, but too deep compared to previous unsafe block {show_block(tip)}"
            raise InteropError(f"reorg is too deep: traversed back to {shown}")
        if not self._interop.is_active(unsafe.timestamp):
            shown = f"proposed local-unsafe block {show_block(unsafe)} found to be reorged to"
            raise InteropError(f"{shown} is not interop-enabled")

    # --- reads -----------------------------------------------------------------------------------------------------

    async def _anchor_point(self, request: InteropRequest) -> Any:
        genesis = self._rollup.genesis
        if not self._interop.is_active(genesis.l2_time):
            raise InteropError("Interop inactive at genesis", INTEROP_INACTIVE)
        try:
            source = await self._l1_block(genesis.l1)
        except InteropError as error:
            raise InteropError(f"failed to fetch L1 block ref: {error}") from None
        derived = await self._ref(genesis.l2.hash)
        return {"source": ref_object(source), "derived": ref_object(derived)}

    async def _fetch_receipts(self, request: InteropRequest) -> Any:
        async with self._receipts:
            receipts = await self._client.receipts(request.blocks[0].hash)
        if receipts is None:
            raise InteropError("querying block: not found")
        return receipts

    async def _ref_by_number(self, request: InteropRequest) -> Any:
        return l2_ref_object(await self._ref(request.number))

    async def _ref_by_timestamp(self, request: InteropRequest) -> Any:
        return l2_ref_object(await self._ref(self._number_at(request.number)))

    async def _output(self, request: InteropRequest) -> Any:
        return await self._output_at(self._number_at(request.number))

    async def _pending_output(self, request: InteropRequest) -> Any:
        number = self._number_at(request.number)
        if number > 0:
            ref = await self._ref(number)
            replaced = replaced_output(await self._payload(ref.hash, f"failed to fetch block ({show_block(ref)})"))
            if replaced is not None:
                return output_object(*replaced)
        return await self._output_at(number)

    async def _output_at(self, number: int) -> Any:
        result = await self._reader.output(OutputRequest(0, number))
        if result.error is not None or result.block is None:
            raise InteropError(result.error or "not found")
        return output_object(result.state_root, result.withdrawal_storage_root, result.block.hash)

    def _number_at(self, timestamp: int) -> int:
        genesis = self._rollup.genesis
        if timestamp < genesis.l2_time:
            raise InteropError(f"did not reach genesis time ({genesis.l2_time}) yet")
        return genesis.l2.number + (timestamp - genesis.l2_time) // self._rollup.block_time

    # --- blocks ----------------------------------------------------------------------------------------------------

    async def _block(self, block_hash: types.Hash) -> types.L2BlockRef:
        try:
            return await self._ref(block_hash)
        except InteropError as error:
            raise InteropError(f"failed to get L2BlockRef: {error}") from None

    async def _ref(self, name: BlockName) -> types.L2BlockRef:
        result = await self._ask(name)
        if isinstance(result, types.L2BlockRef):
            return result
        shown = f"block-hash of hash {to_hex(name)}" if isinstance(name, bytes) else f"L2BlockRef of height {name}"
        raise InteropError(f"failed to determine {shown}, could not get payload: {result or 'not found'}")

    async def _ask(self, name: BlockName) -> types.L2BlockRef | str | None:
        """Return a block's reference, None if there is no such block, or the text of an error."""
        try:
            result = await self._client.ask(GetBlockRef(name))
        except TemporaryError as error:
            return str(error)
        if isinstance(result, ErrorAnswer):
            return result.message
        return result if isinstance(result, types.L2BlockRef) else None

    async def _payload(self, block_hash: types.Hash, what: str) -> ExecutionPayload:
        try:
            result = await self._client.payload(block_hash)
        except TemporaryError as error:
            raise InteropError(f"{what}: {error}") from None
        if result is None:
            raise InteropError(f"{what}: not found")
        return result

    async def _l1_block(self, block: types.BlockId) -> types.L1BlockRef:
        try:
            result = await self._l1.ref(block.number, False)
            if result is None or result.hash != block.hash:
                result = await self._l1.ref(block.number, True)
        except TemporaryError as error:
            raise InteropError(f"failed to get L1BlockRef: {error}") from None
        if result is None or result.hash != block.hash:
            raise InteropError("failed to get L1BlockRef: not found")
        return result


def _size(response: InteropResponse) -> int:
    return RESPONSE_BYTES + len(response.result) + len(response.error or "") + len(response.data or b"")


def replacement_attributes(payload: ExecutionPayload) -> PayloadAttributes:
    """Return the block's deposits and one more. Raises InteropError for a block of before Isthmus."""
    if payload.withdrawals_root is None:
        raise InteropError("withdrawals-root is nil")
    preimage = output_preimage(payload.state_root, payload.withdrawals_root, payload.block_hash)
    deposits = tuple(raw for raw in payload.transactions if is_deposit(raw))
    extra = payload.extra_data
    return PayloadAttributes(
        timestamp=payload.timestamp,
        prev_randao=payload.prev_randao,
        fee_recipient=payload.fee_recipient,
        withdrawals=payload.withdrawals,
        parent_beacon_root=payload.parent_beacon_root,
        transactions=(*deposits, invalidated_block_deposit(preimage)),
        no_tx_pool=True,
        gas_limit=payload.gas_limit,
        eip1559_params=extra[1:9],
        min_base_fee=int.from_bytes(extra[9:], "big") if len(extra) == _WITH_MIN_BASE_FEE else None,
    )


def replaced_output(payload: ExecutionPayload) -> tuple[types.Hash, types.Hash, types.Hash] | None:
    """Return state root, storage root and hash of the block that this one replaced. Raises InteropError."""
    if not payload.transactions:
        raise InteropError("expected block-replacement tx and more")
    last = payload.transactions[-1]
    if not is_deposit(last):
        return None
    try:
        deposit = decode_deposit(last)
    except DepositError as error:
        raise InteropError(f"failed to unmarshal invalidated-block system tx: {error}") from None
    if deposit.sender != types.OPTIMISTIC_BLOCK_DEPOSITOR:
        return None
    data = deposit.data
    if len(data) != PREIMAGE_BYTES or data[:32] != types.ZERO_HASH:
        raise InteropError("failed to unmarshal output-root preimage: it is not of version 0")
    return data[32:64], data[64:96], data[96:]
