"""The methods of the `interop` namespace, by which a supervisor manages the node [IOP5 to IOP19]."""

from typing import Any

import orjson

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.interop import InteropEvents, InteropEventsRequest, InteropRequest, InteropResponse
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND, SERVER_ERROR
from rollup_node.stages.protocol.types import BlockId
from rollup_node.stages.rpc import parameters
from rollup_node.stages.rpc.event_stream import EventStream
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.process.node_view import NodeView, ProcessClient

REPEAT_SECONDS = 1.0


class InteropClient:
    """The client of `engine.interop`: calls, and the events, which are asked for again every second."""

    def __init__(self, bus: Bus) -> None:
        self.stream = EventStream()
        self._client = ProcessClient(bus, "engine.interop", self._take_events)
        self.periodic_task = PeriodicTask("interop events", self._step)

    async def call(self, method: str, **params: Any) -> Any:
        """Return the result of a method of the engine process, as JSON text. Raises JsonRpcError with its error."""
        response = await self._client.request(lambda request_id: InteropRequest(request_id, method, **params))
        if not isinstance(response, InteropResponse):
            raise JsonRpcError(SERVER_ERROR, "the engine process gave no answer to this")
        if response.error is not None:
            data = None if response.data is None else orjson.Fragment(response.data)
            raise JsonRpcError(response.code, response.error, data)
        return orjson.Fragment(response.result)

    def _take_events(self, message: Any) -> None:
        if isinstance(message, InteropEvents):
            for number_, event in message.events:
                self.stream.add(number_, event)

    async def _step(self) -> float:
        self._client.send(InteropEventsRequest(self.stream.last))
        return REPEAT_SECONDS


def interop_methods(client: InteropClient) -> tuple[parameters.Method, ...]:
    async def pull_event(node: NodeView) -> Any:
        return client.stream.pull()

    async def chain_id(node: NodeView) -> Any:
        return str(node.config.rollup.l2_chain_id)

    async def subscribe(node: NodeView, topic: str) -> Any:
        # Over a WebSocket the session answers it.
        raise JsonRpcError(METHOD_NOT_FOUND, "notifications not supported")

    def of_blocks(name: str, *parsers: parameters.Parser) -> parameters.Method:
        async def run(node: NodeView, *blocks: BlockId) -> Any:
            return await client.call(name, blocks=blocks)

        return parameters.Method(f"interop_{name}", run, parsers)

    def of_number(name: str) -> parameters.Method:
        async def run(node: NodeView, value: int) -> Any:
            return await client.call(name, number=value)

        return parameters.Method(f"interop_{name}", run, (parameters.number,))

    async def provide_l1(node: NodeView, block: Any) -> Any:
        return await client.call("provideL1", l1=block)

    async def fetch_receipts(node: NodeView, wanted: bytes) -> Any:
        return await client.call("fetchReceipts", blocks=(BlockId(0, wanted),))

    return (
        parameters.Method("interop_pullEvent", pull_event),
        parameters.Method("interop_chainID", chain_id),
        parameters.Method("interop_subscribe", subscribe, (parameters.string,)),
        of_blocks("updateCrossUnsafe", parameters.block_id),
        of_blocks("updateCrossSafe", parameters.block_id, parameters.block_id),
        of_blocks("updateFinalized", parameters.block_id),
        of_blocks("invalidateBlock", parameters.block_seal),
        of_blocks("anchorPoint"),
        of_blocks("reset", *(parameters.block_id,) * 5),
        of_blocks("resetPreInterop"),
        parameters.Method("interop_provideL1", provide_l1, (parameters.block_reference,)),
        parameters.Method("interop_fetchReceipts", fetch_receipts, (parameters.block_hash,)),
        of_number("l2BlockRefByNumber"),
        of_number("l2BlockRefByTimestamp"),
        of_number("outputV0AtTimestamp"),
        of_number("pendingOutputV0AtTimestamp"),
    )
