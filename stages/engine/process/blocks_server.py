"""What derivation asks of the engine: where to begin, to take attributes, and blocks of the local chain.

A start belongs to one life of derivation. A new life, or one that gives a start up, gets a new one."""

from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.core.driver import Outcome
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.messages.engine import (
    AttributesReady,
    AttributesResult,
    L2BlocksRequest,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)

log = get_logger("engine")

MAX_READS = 8
MAX_BLOCKS = 4096


class BlocksServer:
    """`on_reset` is called with a reason when derivation cannot go on; `wake` when there is work for the driver or a
    read to do."""

    def __init__(self, bus: Bus, on_reset: Callable[[str], None], wake: Callable[[], None]) -> None:
        self._on_reset = on_reset
        self._wake = wake
        self.peer: ProcessId | None = None
        self.start: PipelineStart | None = None
        self.owner: ProcessId | None = None
        self.restart_wanted = False
        self.derived: AttributesReady | None = None
        self.reads: list[tuple[ProcessId, L2BlocksRequest]] = []
        self._server = bus.serve("engine.blocks", self._take)

    def begin(self, start: PipelineStart) -> None:
        """A start is in force; derivation is told if it is there."""
        self.start, self.owner = start, self.peer
        self.derived = None
        self.restart_wanted = False
        self._send_start()

    def clear(self) -> None:
        """No start is in force."""
        self.start = self.owner = self.derived = None
        self.restart_wanted = False

    def applied(self, reset: int, outcome: Outcome) -> None:
        """Tells derivation what became of its attributes."""
        if self.owner is not None:
            message = AttributesResult(reset, outcome.sequence, outcome.outcome, outcome.safe_head, outcome.safe_config)
            self._server.send(self.owner, message)

    def answer_read(self, peer: ProcessId, found: L2BlocksResponse) -> None:
        """Sends blocks that were read."""
        self._server.send(peer, found)

    def _take(self, peer: ProcessId, message: Any) -> None:
        if self.peer is not None and peer.incarnation < self.peer.incarnation:
            return
        self.peer = peer
        if isinstance(message, StartRequest):
            self._want_start(peer, message)
        elif isinstance(message, AttributesReady):
            self._want_block(message)
        elif isinstance(message, L2BlocksRequest):
            self._want_read(peer, message)

    def _want_start(self, peer: ProcessId, message: StartRequest) -> None:
        if self.start is None:
            return
        if self.owner is None or (self.owner == peer and message.reset < self.start.reset):
            self.owner = peer
            self._send_start()
        elif self.owner == peer and message.reason is not None:
            log.warn("derivation asks for a reset", reason=message.reason)
            self._on_reset(message.reason)
        else:
            self.restart_wanted = True
            self._wake()

    def _want_block(self, message: AttributesReady) -> None:
        if self.start is None or self.owner != self.peer:
            return
        if message.reset < self.start.reset:
            self._send_start()
        elif message.reset == self.start.reset:
            self.derived = message
            self._wake()

    def _want_read(self, peer: ProcessId, message: L2BlocksRequest) -> None:
        same = [read for read in self.reads if read == (peer, message)]
        if not same and len(self.reads) < MAX_READS and 0 <= message.last - message.first < MAX_BLOCKS:
            self.reads.append((peer, message))
            self._wake()

    def _send_start(self) -> None:
        if self.owner is not None and self.start is not None:
            self._server.send(self.owner, self.start)
