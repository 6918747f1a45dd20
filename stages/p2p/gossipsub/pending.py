"""Messages whose validation is pending, each once however many peers send it; bounded in number and bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rollup_node.stages.p2p.gossipsub.message import MessageId
from rollup_node.stages.p2p.gossipsub.params import MAX_PENDING_BYTES, MAX_PENDING_MESSAGES
from rollup_node.stages.p2p.identity.peer_id import PeerId


@dataclass
class PendingMessage:
    """A message from arrival to validation result; `senders` are all peers that sent it, the first one first."""

    topic: str
    data: bytes
    size: int
    received_at: float
    senders: dict[PeerId, None] = field(default_factory=dict)

    @property
    def sender(self) -> PeerId:
        """Who brought it first."""
        return next(iter(self.senders))


class PendingMessages:
    """Pending messages by id, oldest first."""

    def __init__(self) -> None:
        self._messages: dict[MessageId, PendingMessage] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def get(self, message_id: MessageId) -> PendingMessage | None:
        """The message, None if it is not pending."""
        return self._messages.get(message_id)

    def add(self, message_id: MessageId, message: PendingMessage) -> bool:
        """Lets a message wait; False if there is no room."""
        if len(self._messages) >= MAX_PENDING_MESSAGES or self.bytes + message.size > MAX_PENDING_BYTES:
            return False
        self._messages[message_id] = message
        self.bytes += message.size
        return True

    def take(self, message_id: MessageId) -> PendingMessage | None:
        """Removes the message and returns it; None if it is not pending."""
        message = self._messages.pop(message_id, None)
        if message is not None:
            self.bytes -= message.size
        return message

    def older_than(self, time: float) -> Iterator[MessageId]:
        """Ids of messages received before `time`."""
        return iter([each for each, message in self._messages.items() if message.received_at < time])
