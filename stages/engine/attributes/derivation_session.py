"""Which life of the derivation process works on which start. A start belongs to one life of derivation; a new life, or
one that has given its start up, gets a new one."""

from enum import Enum

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.messages.engine import PipelineStart, StartRequest


class SessionStep(Enum):
    """What follows from a message of derivation."""

    NONE = "none"
    SEND_START = "send start"
    """The present start is sent to its owner (again)."""
    SEARCH = "search"
    """Derivation cannot go on: a new start is searched for."""
    RESTART = "restart"
    """Derivation gets a new start at the safe head in force."""
    TAKE = "take"
    """Attributes are of the present start."""


class DerivationSession:
    """`peer` is the life of derivation that was seen last, `owner` the one that the present start belongs to."""

    def __init__(self) -> None:
        self.peer: ProcessId | None = None
        self.start: PipelineStart | None = None
        self.owner: ProcessId | None = None
        self.restart_wanted = False

    def begin(self, start: PipelineStart) -> None:
        """A start is in force; it belongs to the present life."""
        self.start, self.owner = start, self.peer
        self.restart_wanted = False

    def clear(self) -> None:
        """No start is in force."""
        self.start = self.owner = None
        self.restart_wanted = False

    def see(self, peer: ProcessId) -> bool:
        """Notes who sends; False for an earlier life, whose messages are ignored."""
        if self.peer is not None and peer.incarnation < self.peer.incarnation:
            return False
        self.peer = peer
        return True

    def request_start(self, peer: ProcessId, message: StartRequest) -> SessionStep:
        """Derivation is empty. The first request takes the start; its owner gets it again unless it has given it up."""
        if self.start is None:
            return SessionStep.NONE
        if self.owner is None or (self.owner == peer and message.reset < self.start.reset):
            self.owner = peer
            return SessionStep.SEND_START
        if self.owner == peer and message.reason is not None:
            return SessionStep.SEARCH
        self.restart_wanted = True
        return SessionStep.RESTART

    def attributes_step(self, peer: ProcessId, reset: int) -> SessionStep:
        """What follows from attributes: those of an earlier start are answered by the present one, and while
        derivation waits for a new start none count."""
        if self.start is None or self.owner != peer:
            return SessionStep.NONE
        if reset < self.start.reset:
            return SessionStep.SEND_START
        taken = reset == self.start.reset and not self.restart_wanted
        return SessionStep.TAKE if taken else SessionStep.NONE
