"""Reads of the engine for other processes: blocks for span batches and peers, parts of output roots."""

from collections.abc import Callable
from typing import NamedTuple

from rollup_node.stages.engine.calls.engine_api import show_block
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.messages.control import OutputRequest, OutputResponse
from rollup_node.stages.messages.engine import EngineStatus, L2BlocksRequest, L2BlocksResponse
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload, output_root
from rollup_node.stages.protocol.types import L2_TO_L1_MESSAGE_PASSER, ZERO_HASH, Hash, L2BlockContent, L2BlockRef


class OutputError(Exception):
    """There is no output root; the text is op-node's [RPC34]."""


class NoSuchBlockError(OutputError):
    """The engine has no block of that number."""


class _Texts(NamedTuple):
    """What the errors of a method begin with."""

    ref: str
    output: str


_OUTPUT_AT_BLOCK = _Texts("failed to get L2 block ref with sync status: ", "failed to get L2 output at block ")
_SUPERROOT = _Texts("blockRefWithStatus@{number}: ", "outputV0AtBlock@")


class Reader:
    """`client` has connections of its own, so as not to delay moves of heads; `status` returns the heads."""

    def __init__(self, config: EngineConfig, client: EngineClient, status: Callable[[], EngineStatus]) -> None:
        self._config, self._client, self._status = config, client, status

    async def close(self) -> None:
        await self._client.close()

    async def overlap_blocks(self, request: L2BlocksRequest) -> L2BlocksResponse:
        """Return the local canonical blocks of a range; none if one of them is missing or cannot be read."""
        error: str | None = None
        contents: tuple[L2BlockContent, ...] = ()
        try:
            payloads = await self._client.payloads(request.first, request.last)
            if payloads is None:
                error = f"the engine does not have all of the blocks {request.first} to {request.last}"
            else:
                contents = tuple(self._content(payload) for payload in payloads)
        except (TemporaryError, BlockError) as failure:
            error = str(failure)
        return L2BlocksResponse(request.reset, request.first, request.last, contents, error)

    def _content(self, payload: ExecutionPayload) -> L2BlockContent:
        return L2BlockContent(l2_ref_of_payload(self._config.rollup, payload), payload.transactions)

    async def payload(self, request: PayloadRequest) -> PayloadResponse:
        """Return the canonical block of a number."""
        try:
            return PayloadResponse(request.id, await self._client.payload(request.number), None)
        except TemporaryError as error:
            return PayloadResponse(request.id, None, str(error))

    async def output(self, request: OutputRequest) -> OutputResponse:
        """optimism_outputAtBlock, with the heads at the time when the block was read [RPC31, RPC43]."""
        texts = _SUPERROOT if request.only_safe else _OUTPUT_AT_BLOCK
        try:
            payload, status = await self._find(request.number, texts)
            ref = l2_ref_of_payload(self._config.rollup, payload)
            if request.only_safe and (status.local_safe is None or ref.number > status.local_safe.number):
                return _no_output(request, None, status)
            storage = await self._storage_root(payload, ref, texts)
        except (OutputError, TemporaryError, BlockError) as error:
            status_then = self._status() if isinstance(error, NoSuchBlockError) else None
            return _no_output(request, str(error), status_then)
        root = output_root(payload.state_root, storage, payload.block_hash)
        return OutputResponse(request.id, None, ref, root, payload.state_root, storage, status)

    async def _find(self, number: int, texts: _Texts) -> tuple[ExecutionPayload, EngineStatus]:
        what = texts.ref.format(number=number) + "failed to determine L2BlockRef of height"
        try:
            payload = await self._client.payload(number)
        except TemporaryError as error:
            raise OutputError(f"{what} {number}, could not get payload: {error}") from None
        if payload is None:
            raise NoSuchBlockError(f"{what} {number}, could not get payload: not found")
        return payload, self._status()

    async def _storage_root(self, payload: ExecutionPayload, ref: L2BlockRef, texts: _Texts) -> Hash:
        """Return the message passer's storage root, from the header or by a proof [RPC32]. Raises OutputError."""
        rules = self._config.rollup.schedule().l2(payload.timestamp)
        from_header = rules.withdrawals_root and not self._config.withdrawal_root_from_state
        if from_header and payload.withdrawals_root is not None:
            return payload.withdrawals_root
        try:
            return await self._client.storage_root(L2_TO_L1_MESSAGE_PASSER, payload)
        except TemporaryError as error:
            raise OutputError(f"{texts.output}{show_block(ref)}: {error}") from None


def _no_output(request: OutputRequest, error: str | None, status: EngineStatus | None) -> OutputResponse:
    return OutputResponse(request.id, error, None, ZERO_HASH, ZERO_HASH, ZERO_HASH, status)
