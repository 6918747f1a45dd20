"""The server of `p2p.blocks`: peers' blocks go to the engine process, its own are published once each."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.messages import p2p
from rollup_node.stages.p2p.blocks.latest_blocks import LatestBlocks
from rollup_node.stages.protocol.payloads import ExecutionPayload

MAX_RESPONSES = 64


class UnsafeBlocksServer:
    """`publish` is called while `is_ready`, with a function for its error or None; `on_gap` with head and end of a gap.

    A restarted engine process gets the latest blocks of peers again, and upon its request those that it sequenced: a
    published block that is not in the engine must not be sequenced a second time [SEQ39]."""

    def __init__(
        self,
        bus: Bus,
        publish: Callable[[p2p.PublishRequest, Callable[[str | None], None]], None],
        is_ready: Callable[[], bool],
        on_gap: Callable[[int, p2p.GapEnd], None],
        latest: LatestBlocks,
    ) -> None:
        self._publish, self._is_ready, self._on_gap = publish, is_ready, on_gap
        self._engine: ProcessId | None = None
        self._latest = latest
        self._responses: OrderedDict[int, p2p.PublishResponse] = OrderedDict()
        self._publishing: set[int] = set()
        self.published = 0
        self._server = bus.serve("p2p.blocks", self._on_message)

    def send_block(self, payload: ExecutionPayload) -> None:
        """Send a block of a peer to the engine process."""
        self._latest.add(payload)
        if self._engine is not None:
            self._server.send(self._engine, p2p.UnsafeBlock(payload))

    def _on_message(self, engine: ProcessId, message: Any) -> None:
        if self._engine is None or engine.incarnation > self._engine.incarnation:
            self._engine = engine
            self._responses.clear()
            self._publishing.clear()
            for payload in self._latest.recent:
                self._server.send(engine, p2p.UnsafeBlock(payload))
        elif engine.incarnation < self._engine.incarnation:
            return
        if isinstance(message, p2p.PublishRequest):
            self._publish_block(engine, message)
        elif isinstance(message, p2p.LatestBlocksRequest):
            # Before this process is ready, blocks that it is to take over may wait for it.
            if self._is_ready():
                self._server.send(engine, p2p.LatestBlocksResponse(message.head, self._latest.above(message.head)))
        elif isinstance(message, p2p.UnsafeBlocksRequest) and message.gap_end is not None:
            self._on_gap(message.head, message.gap_end)

    def _publish_block(self, engine: ProcessId, message: p2p.PublishRequest) -> None:
        done = self._responses.get(message.id)
        if done is not None:
            self._server.send(engine, done)
        elif message.id not in self._publishing and self._is_ready():
            self._publishing.add(message.id)
            self._publish(message, lambda error: self._on_published(engine, message.id, error))

    def _on_published(self, engine: ProcessId, number: int, error: str | None) -> None:
        if error is None:
            self.published += 1
        if engine != self._engine:
            return
        self._publishing.discard(number)
        # Responses are kept to answer repeated requests: a block is published once.
        done = self._responses[number] = p2p.PublishResponse(number, error)
        if len(self._responses) > MAX_RESPONSES:
            self._responses.popitem(last=False)
        self._server.send(engine, done)
