"""What derivation asks of the engine: where to begin, to take attributes, and blocks of the local chain.

A start belongs to one life of derivation. A new life, or one that gives a start up, gets a new one."""

from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus import Bus, Peer
from rollup_node.ipc.log import get_logger
from rollup_node.stages.engine.driver import Outcome
from rollup_node.stages.messages import (
    Applied,
    Derived,
    L2BlocksFound,
    PipelineStart,
    WantL2Blocks,
    WantStart,
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
        self.peer: Peer | None = None
        self.start: PipelineStart | None = None
        self.owner: Peer | None = None
        self.restart_wanted = False
        self.derived: Derived | None = None
        self.reads: list[tuple[Peer, WantL2Blocks]] = []
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
            message = Applied(reset, outcome.sequence, outcome.outcome, outcome.safe_head, outcome.safe_config)
            self._server.send(self.owner, message)

    def answer_read(self, peer: Peer, found: L2BlocksFound) -> None:
        """Sends blocks that were read."""
        self._server.send(peer, found)

    def _take(self, peer: Peer, message: Any) -> None:
        if self.peer is not None and peer.incarnation < self.peer.incarnation:
            return
        self.peer = peer
        if isinstance(message, WantStart):
            self._want_start(peer, message)
        elif isinstance(message, Derived):
            self._want_block(message)
        elif isinstance(message, WantL2Blocks):
            self._want_read(peer, message)

    def _want_start(self, peer: Peer, message: WantStart) -> None:
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

    def _want_block(self, message: Derived) -> None:
        if self.start is None or self.owner != self.peer:
            return
        if message.reset < self.start.reset:
            self._send_start()
        elif message.reset == self.start.reset:
            self.derived = message
            self._wake()

    def _want_read(self, peer: Peer, message: WantL2Blocks) -> None:
        same = [read for read in self.reads if read == (peer, message)]
        if not same and len(self.reads) < MAX_READS and 0 <= message.last - message.first < MAX_BLOCKS:
            self.reads.append((peer, message))
            self._wake()

    def _send_start(self) -> None:
        if self.owner is not None and self.start is not None:
            self._server.send(self.owner, self.start)
