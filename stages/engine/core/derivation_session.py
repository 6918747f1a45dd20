"""Which life of the derivation process works on which start. A start belongs to one life of derivation; a new life, or
one that has given its start up, gets a new one."""

from enum import Enum

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.messages.engine import AttributesReady, PipelineStart, StartRequest


class SessionStep(Enum):
    """What follows from a message of derivation."""

    NONE = "none"
    SEND_START = "send start"
    """The present start is sent to its owner (again)."""
    SEARCH = "search"
    """Derivation cannot go on: a new start is searched for."""
    RESTART = "restart"
    """Derivation gets a new start at the safe head in force."""


class DerivationSession:
    """`peer` is the life of derivation that was seen last, `owner` the one that the present start belongs to;
    `attributes` is its last message that was not offered yet."""

    def __init__(self) -> None:
        self.peer: ProcessId | None = None
        self.start: PipelineStart | None = None
        self.owner: ProcessId | None = None
        self.restart_wanted = False
        self.attributes: AttributesReady | None = None

    def begin(self, start: PipelineStart) -> None:
        """A start is in force; it belongs to the present life."""
        self.start, self.owner = start, self.peer
        self.attributes = None
        self.restart_wanted = False

    def clear(self) -> None:
        """No start is in force."""
        self.start = self.owner = self.attributes = None
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

    def take_attributes(self, peer: ProcessId, message: AttributesReady) -> SessionStep:
        """Attributes of the present start are kept to be offered; those of an earlier one are answered by the start."""
        if self.start is None or self.owner != peer:
            return SessionStep.NONE
        if message.reset < self.start.reset:
            return SessionStep.SEND_START
        if message.reset == self.start.reset:
            self.attributes = message
        return SessionStep.NONE
