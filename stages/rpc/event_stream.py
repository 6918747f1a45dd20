"""The events for a supervisor, which are either subscribed to or pulled one by one [IOP5, IOP6, IOP22]."""

from collections import deque
from collections.abc import Callable
from typing import Any

from rollup_node.stages.messages.interop import DerivedPair, InteropEvent
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlockRef
from rollup_node.stages.rpc.jsonrpc import JsonRpcError

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
    if ref is None:
        return None
    return {
        "hash": to_hex(ref.hash),
        "number": ref.number,
        "parentHash": to_hex(ref.parent_hash),
        "timestamp": ref.timestamp,
    }
