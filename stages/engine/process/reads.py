"""Reads of the execution engine on behalf of others: blocks for overlap rules, and the parts of output roots."""

from collections.abc import Callable

from rollup_node.stages.engine.api.io.client import EngineClient
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.blocks_server import BlocksServer
from rollup_node.stages.engine.process.control_server import ControlServer
from rollup_node.stages.messages.control import OutputRequest, OutputResponse
from rollup_node.stages.messages.engine import EngineStatus, L2BlocksRequest, L2BlocksResponse
from rollup_node.stages.protocol.addresses import L2_TO_L1_MESSAGE_PASSER
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.output_root import output_root
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, Hash, L2BlockContent, L2BlockRef


class OutputError(Exception):
    """There is no output root to give; the text is the one that op-node gives."""


class Reader:
    """Answers what waits in the two servers, oldest first."""

    def __init__(
        self,
        config: EngineConfig,
        client: EngineClient,
        blocks: BlocksServer,
        control: ControlServer,
        status: Callable[[], EngineStatus],
    ) -> None:
        self._config = config
        self._client = client
        self._blocks = blocks
        self._control = control
        self._status = status

    async def step(self) -> None:
        """Answers everything that waits now."""
        while self._blocks.reads:
            peer, wanted = self._blocks.reads[0]
            found = await self._contents(wanted)
            self._blocks.reads.remove((peer, wanted))
            self._blocks.answer_read(peer, found)
        while self._control.outputs:
            peer, asked = self._control.outputs[0]
            answer = await self._output(asked)
            self._control.outputs.remove((peer, asked))
            self._control.answer(peer, answer)

    async def _contents(self, wanted: L2BlocksRequest) -> L2BlocksResponse:
        problem: str | None = None
        contents: tuple[L2BlockContent, ...] = ()
        try:
            payloads = await self._client.payloads(wanted.first, wanted.last)
            if payloads is None:
                problem = f"the engine has not got all of the blocks {wanted.first} to {wanted.last}"
            else:
                contents = tuple(self._content(payload) for payload in payloads)
        except (TemporaryError, BlockError) as error:
            problem = str(error)
        return L2BlocksResponse(wanted.reset, wanted.first, wanted.last, contents, problem)

    def _content(self, payload: ExecutionPayload) -> L2BlockContent:
        return L2BlockContent(l2_ref_of_payload(self._config.rollup, payload), payload.transactions)

    async def _output(self, asked: OutputRequest) -> OutputResponse:
        """optimism_outputAtBlock: the heads told with it are those when the block was read."""
        try:
            payload, status = await self._find(asked.number)
            ref = l2_ref_of_payload(self._config.rollup, payload)
            storage = await self._storage_root(payload, ref)
        except (OutputError, TemporaryError, BlockError) as error:
            return OutputResponse(asked.id, str(error), None, ZERO_HASH, ZERO_HASH, ZERO_HASH, None)
        root = output_root(payload.state_root, storage, payload.block_hash)
        return OutputResponse(asked.id, None, ref, root, payload.state_root, storage, status)

    async def _find(self, number: int) -> tuple[ExecutionPayload, EngineStatus]:
        what = "failed to get L2 block ref with sync status: failed to determine L2BlockRef of height"
        try:
            payload = await self._client.payload(number)
        except TemporaryError as error:
            raise OutputError(f"{what} {number}, could not get payload: {error}") from None
        if payload is None:
            raise OutputError(f"{what} {number}, could not get payload: not found")
        return payload, self._status()

    async def _storage_root(self, payload: ExecutionPayload, ref: L2BlockRef) -> Hash:
        """The message passer's storage root: the header's where it has one, else proven from the state."""
        rules = self._config.rollup.schedule().l2(payload.timestamp)
        from_header = rules.withdrawals_root and not self._config.withdrawal_root_from_state
        if from_header and payload.withdrawals_root is not None:
            return payload.withdrawals_root
        try:
            return await self._client.storage_root(L2_TO_L1_MESSAGE_PASSER, payload)
        except TemporaryError as error:
            text = f"failed to get L2 output at block {to_hex(ref.hash)}:{ref.number}"
            raise OutputError(f"{text}: {error}") from None
