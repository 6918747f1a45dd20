"""The `interop` namespace, by which an interop supervisor manages the node: methods and events [IOP5 to IOP22]."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from rollup_node.ipc.bus.bus import Bus, GroupView
from rollup_node.stages.io.requests import RequestClient
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.interop import (
    DerivedPair,
    InteropEvent,
    InteropEvents,
    InteropEventsRequest,
    InteropRequest,
    InteropResponse,
)
from rollup_node.stages.protocol.block_refs import ref_object
from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlockId, BlockRef
from rollup_node.stages.rpc import parameters
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.process.node_view import NodeView, answer

MAX_QUEUED = 100
OUT_OF_EVENTS = -39001

Notify = Callable[[dict[str, Any]], None]
"""Sends the result of a notification to the subscriber."""


class EventStream:
    """One subscriber at a time, else events wait, the oldest dropped; `last` is the number of the last event."""

    def __init__(self) -> None:
        self.last = 0
        self._queue: deque[InteropEvent] = deque(maxlen=MAX_QUEUED)
        self._notify: Notify | None = None

    def add(self, number: int, event: InteropEvent) -> None:
        """Take an event, unless it was taken before or waits as the last: needs are repeated until pulled [IOP29]."""
        if number <= self.last:
            return
        self.last = number
        if self._notify is not None:
            self._notify({"data": shown_event(event)})
        elif not self._queue or self._queue[-1] != event:
            self._queue.append(event)

    def subscribe(self, notify: Notify) -> None:
        """Send all further events to a new subscriber; waiting ones are dropped, and the earlier subscriber's end."""
        self._notify = notify
        self._queue.clear()

    def unsubscribe(self, notify: Notify) -> None:
        """Send no more to a subscriber."""
        if self._notify is notify:
            self._notify = None

    def pull(self) -> dict[str, Any]:
        """Return the oldest event; ends the subscription. Raises JsonRpcError when none waits."""
        notify, self._notify = self._notify, None
        if notify is not None:
            notify({"data": None, "close": True})
        if not self._queue:
            raise JsonRpcError(OUT_OF_EVENTS, "out of events")
        return shown_event(self._queue.popleft())


def shown_event(event: InteropEvent) -> dict[str, Any]:
    """Return the event as JSON; what is absent is left out [IOP21]."""
    replaced = event.replace_block
    result = {
        "reset": event.reset,
        "unsafeBlock": _block(event.unsafe_block),
        "derivationUpdate": _pair(event.derivation_update),
        "exhaustL1": _pair(event.exhaust_l1),
        "replaceBlock": None
        if replaced is None
        else {"replacement": _block(replaced.replacement), "invalidated": to_hex(replaced.invalidated)},
        "derivationOriginUpdate": _block(event.derivation_origin_update),
    }
    return {name: value for name, value in result.items() if value is not None}


def _pair(pair: DerivedPair | None) -> dict[str, Any] | None:
    return None if pair is None else {"source": _block(pair.source), "derived": _block(pair.derived)}


def _block(ref: BlockRef | None) -> dict[str, Any] | None:
    return None if ref is None else ref_object(ref)


REPEAT_SECONDS = 1.0


class InteropClient:
    """The client of `engine.interop`: calls, and the events, which are asked for again every second."""

    def __init__(self, bus: Bus | GroupView) -> None:
        self.stream = EventStream()
        self._client = RequestClient(bus, "engine.interop", self._take_events)
        self.periodic_task = PeriodicTask("interop events", self._step)

    async def call(self, method: str, **params: Any) -> Any:
        """Return the result of a method of the engine process, as JSON text. Raises JsonRpcError with its error."""
        response = await answer(self._client, InteropResponse, partial(InteropRequest, **params), method)
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
