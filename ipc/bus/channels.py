"""The vocabulary of the channel table: who binds, who connects, by which pattern, with which messages."""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Pattern(Enum):
    """How messages travel.

    REQUEST: ROUTER bound by the server, a DEALER per client; needs go up, answers come down, both may repeat.
    STATUS: PUB bound by the server; each message is a whole state, repeated, the newest wins.
    WORK: ROUTER bound by the server (the one who has work), a DEALER per worker; tasks go down, results up.
    """

    REQUEST = "request"
    STATUS = "status"
    WORK = "work"


@dataclass(frozen=True)
class Channel:
    """One row of the channel table. `up` is the union of messages from clients to the server, `down` the other
    way; a STATUS channel has no `up`. For WORK, `down` is the union of tasks and `up` the union of results."""

    name: str
    pattern: Pattern
    server: str
    clients: tuple[str, ...]
    down: Any
    up: Any = None
