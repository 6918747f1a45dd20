"""Declaration of channels: who binds, who connects, by which pattern, with which messages."""

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
    """One channel between roles.

    `up` is the union of messages from clients to the server, `down` of those from the server to clients; a STATUS
    channel has no `up`. For WORK, `down` is the union of tasks and `up` that of results."""

    name: str
    pattern: Pattern
    server: str
    clients: tuple[str, ...]
    down: Any
    up: Any = None
