"""Blocks between this process and the engine process: those that arrive go there at once, those that it sequenced come
from there and are published once each."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages.p2p import GapEnd, PublishRequest, PublishResponse, UnsafeBlock, UnsafeBlocksRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

MAX_RECENT = 16
MAX_RESPONSES = 64


class UnsafeBlocksServer:
    """The server of `p2p.blocks`. `publish` gives an error text or None, and is not called before `is_ready` says so;
    `on_gap` is told of a head's number and the block above a gap. A new life of the engine is given the latest blocks
    again, its own among them: a block that was published but not inserted when it died is not sequenced anew."""

    def __init__(
        self,
        bus: Bus,
        publish: Callable[[ExecutionPayload], str | None],
        is_ready: Callable[[], bool],
        on_gap: Callable[[int, GapEnd], None],
    ) -> None:
        self._publish, self._is_ready, self._on_gap = publish, is_ready, on_gap
        self._engine: ProcessId | None = None
        self._recent: OrderedDict[Hash, ExecutionPayload] = OrderedDict()
        self._responses: OrderedDict[int, PublishResponse] = OrderedDict()
        self.published = 0
        self._server = bus.serve("p2p.blocks", self._on_message)

    def send_block(self, payload: ExecutionPayload) -> None:
        """Hands a block on."""
        self._store_recent(payload)
        if self._engine is not None:
            self._server.send(self._engine, UnsafeBlock(payload))

    def _on_message(self, engine: ProcessId, message: Any) -> None:
        if self._engine is None or engine.incarnation > self._engine.incarnation:
            self._engine = engine
            self._responses.clear()
            for payload in self._recent.values():
                self._server.send(engine, UnsafeBlock(payload))
        elif engine.incarnation < self._engine.incarnation:
            return
        if isinstance(message, PublishRequest):
            self._publish_block(engine, message)
        elif isinstance(message, UnsafeBlocksRequest) and message.gap_end is not None:
            self._on_gap(message.head, message.gap_end)

    def _publish_block(self, engine: ProcessId, message: PublishRequest) -> None:
        done = self._responses.get(message.id)
        if done is None and not self._is_ready():
            return
        if done is None:
            done = self._responses[message.id] = PublishResponse(message.id, self._publish(message.payload))
            if done.error is None:
                self.published += 1
                self._store_recent(message.payload)
            if len(self._responses) > MAX_RESPONSES:
                self._responses.popitem(last=False)
        self._server.send(engine, done)

    def _store_recent(self, payload: ExecutionPayload) -> None:
        self._recent[payload.block_hash] = payload
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)
