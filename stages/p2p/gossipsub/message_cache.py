"""The message cache (mcache): accepted messages, for peers that request them; the newest are announced."""

from collections.abc import Iterator
from typing import NamedTuple

from rollup_node.stages.p2p.gossipsub.message import MessageId
from rollup_node.stages.p2p.identity.peer_id import PeerId


class CachedMessage(NamedTuple):
    """A message ready to be sent; `frame` is it as one whole RPC, shared by all queues that hold it."""

    topic: str
    frame: bytes


class MessageCache:
    """A sliding window of `history` heartbeats; ids of the last `gossip` of them are announced."""

    def __init__(self, history: int, gossip: int) -> None:
        self._windows: list[list[MessageId]] = [[] for _ in range(history)]
        self._gossip = gossip
        self._messages: dict[MessageId, CachedMessage] = {}
        self._sent: dict[MessageId, dict[PeerId, int]] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message_id: MessageId, message: CachedMessage) -> None:
        """Add a message to the newest window."""
        if message_id not in self._messages:
            self._windows[0].append(message_id)
        self._messages[message_id] = message

    def get_for_peer(self, message_id: MessageId, peer: PeerId) -> tuple[CachedMessage, int] | None:
        """Return a message that a peer requests, and how often it has requested it; None when it is not cached."""
        message = self._messages.get(message_id)
        if message is None:
            return None
        counts = self._sent.setdefault(message_id, {})
        counts[peer] = counts.get(peer, 0) + 1
        return message, counts[peer]

    def gossip_ids(self, topic: str) -> list[MessageId]:
        """Return the ids to announce in a topic."""
        return [each for each in self._newest() if self._messages[each].topic == topic]

    def shift(self) -> None:
        """Start a new window and drops the oldest."""
        for message_id in self._windows.pop():
            del self._messages[message_id]
            self._sent.pop(message_id, None)
        self._windows.insert(0, [])

    def _newest(self) -> Iterator[MessageId]:
        for window in self._windows[: self._gossip]:
            yield from window
