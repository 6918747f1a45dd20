"""The connections of a server: who may stay when there are too many, hold too much memory or wait too long [RPC8]."""

import ipaddress
from enum import Enum

import msgspec

UNKNOWN_ADDRESS = "unknown"


class Phase(Enum):
    """What a connection waits for; the value is how long it may, in seconds [RPC8]."""

    HEADER = (30.0, "header")
    BODY = (30.0, "body")
    RESPONSE = (30.0, "response")
    IDLE = (120.0, "idle")

    @property
    def seconds(self) -> float:
        """The longest time in this phase."""
        return self.value[0]


class Limits(msgspec.Struct, frozen=True):
    """How many connections a server keeps, in all and of one address, and how many bytes it holds for all of them:
    what they have sent and nobody has read, requests and responses. `backlog` connections are accepted at once."""

    connections: int
    per_address: int
    held_bytes: int
    backlog: int = 16

    def within(self, descriptors: int) -> "Limits":
        """The limits of a server that may use so many descriptors. A burst is accepted before any connection above
        the limit can be closed, so it needs descriptors beyond those of the connections that stay."""
        backlog = max(1, min(self.backlog, descriptors // 4))
        connections = max(0, min(self.connections, descriptors - backlog))
        return Limits(connections, max(1, min(self.per_address, connections // 2)), self.held_bytes, backlog)


class Connection:
    """One connection: the address it counts for, what it waits for since when, and the bytes held for it."""

    __slots__ = ("address", "held", "phase", "since")

    def __init__(self, address: str, now: float) -> None:
        self.address = address
        self.phase = Phase.HEADER
        self.since = now
        self.held = 0


class ConnectionTable:
    """All connections of one server. Times are in seconds of one monotonic clock."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._by_address: dict[str, set[Connection]] = {}
        self._count = 0
        self._held = 0

    def __len__(self) -> int:
        return self._count

    def open(self, peer: str | None, now: float) -> Connection:
        """A new connection from an IP address."""
        connection = Connection(counted_address(peer), now)
        self._by_address.setdefault(connection.address, set()).add(connection)
        self._count += 1
        return connection

    def close(self, connection: Connection) -> None:
        """Forgets a connection; does nothing for one that is not in the table any more."""
        same_address = self._by_address.get(connection.address, set())
        if connection not in same_address:
            return
        same_address.remove(connection)
        if not same_address:
            del self._by_address[connection.address]
        self._count -= 1
        self._held -= connection.held
        connection.held = 0

    def enter(self, connection: Connection, phase: Phase, now: float) -> None:
        """Begins a phase of a connection."""
        connection.phase, connection.since = phase, now

    def hold(self, connection: Connection, size: int) -> None:
        """Counts bytes held for a connection, or released if `size` is negative."""
        if connection in self._by_address.get(connection.address, ()):
            connection.held += size
            self._held += size

    def crowded_out(self, newcomer: Connection) -> Connection | None:
        """The connection to close because there are too many with `newcomer`, which itself stays: one of its address
        if that has too many, else one of the address that has most. Those go first that wait for their client, and
        among them the one that waits longest."""
        if len(self._by_address[newcomer.address]) > self.limits.per_address:
            crowd = self._by_address[newcomer.address]
        elif self._count > self.limits.connections:
            crowd = max(self._by_address.values(), key=len)
            if crowd == {newcomer}:
                crowd = {each for all_of_one in self._by_address.values() for each in all_of_one}
        else:
            return None
        others = (each for each in crowd if each is not newcomer)
        return min(others, key=lambda each: (each.phase is Phase.RESPONSE, each.since), default=None)

    def heaviest(self) -> Connection | None:
        """The connection to close because too many bytes are held: the one with most, of the address with most."""
        if self._held <= self.limits.held_bytes:
            return None
        heaviest = max(self._by_address.values(), key=lambda group: sum(each.held for each in group))
        return max(heaviest, key=lambda each: (each.held, -each.since))

    def expired(self, now: float) -> list[Connection]:
        """The connections that have been in their phase for too long."""
        return [each for group in self._by_address.values() for each in group if now - each.since > each.phase.seconds]


def counted_address(peer: str | None) -> str:
    """What connections are counted by: an IPv4 address, or the /64 network of an IPv6 address, which is what one
    customer usually has."""
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return UNKNOWN_ADDRESS
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
