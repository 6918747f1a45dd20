"""Declaration of channels: who binds, who connects, by which pattern, with which messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Pattern(Enum):
    """How messages travel.

    REQUEST: ROUTER bound by the server, a DEALER per client; requests go up, responses down, both may be repeated.
    STATUS: PUB bound by the server; each message is a whole state, and the newest wins.
    WORK: ROUTER bound by the server, which dispatches; a DEALER per worker; tasks go down, results up.
    """

    REQUEST = "request"
    STATUS = "status"
    WORK = "work"


@dataclass(frozen=True)
class Channel:
    """One channel between roles; there is one for each group of processes that has the server [LIF33].

    `up` is the union of messages from clients to the server, `down` of those from the server to clients; a STATUS
    channel has no `up`. For WORK, `down` is the union of tasks and `up` that of results."""

    name: str
    pattern: Pattern
    server: str
    clients: tuple[str, ...]
    down: Any
    up: Any = None

    def socket_name(self, group: str) -> str:
        """Return the name of the socket that the server of a group binds."""
        return f"{self.name}.{group}" if group else self.name


def socket_names(channels: Iterable[Channel], groups: Iterable[str]) -> set[str]:
    """Return the names that the sockets of a node with those groups may have."""
    groups = set(groups)
    return {channel.socket_name(group) for channel in channels for group in groups}
