"""The connections of a server: who may stay when there are too many, hold too much memory or wait too long [RPC8]."""

import ipaddress
from collections.abc import Iterator
from enum import Enum
from itertools import chain

import msgspec

UNKNOWN_ADDRESS = "unknown"


class Phase(Enum):
    """What a connection waits for; the value is how long it may, in seconds [RPC8]."""

    HEADER = (30.0, "header")
    BODY = (30.0, "body")
    RESPONSE = (30.0, "response")
    IDLE = (120.0, "idle")
    STREAM = (float("inf"), "stream")

    @property
    def seconds(self) -> float:
        return self.value[0]


class Limits(msgspec.Struct, frozen=True):
    """How many connections a server keeps, in all and of one address, and how many bytes it holds for all of them.

    A response may take `response_seconds`, by default as long as the phase says."""

    connections: int
    per_address: int
    held_bytes: int
    response_seconds: float | None = None

    @property
    def backlog(self) -> int:
        """How many connections are accepted in one iteration of the event loop.

        It takes about ten from there to the response of a short request: so those that are new stay fewer than those
        that have asked again, of which one is closed when too many connect, rather than one whose client still waits
        for its first response."""
        return max(1, self.per_address // 64)

    def within(self, descriptors: int) -> "Limits":
        """Return the limits of a server with so many descriptors, of which a burst needs some more."""
        connections = max(0, min(self.connections, descriptors - self.backlog))
        per_address = max(1, min(self.per_address, connections // 2))
        return Limits(connections, per_address, self.held_bytes, self.response_seconds)


class ClientConnection:
    """A connection of an address, in a phase since a time, with bytes held for it; `served` after a response."""

    __slots__ = ("address", "held", "phase", "served", "since")

    def __init__(self, address: str, now: float) -> None:
        self.address = address
        self.phase = Phase.HEADER
        self.since = now
        self.held = 0
        self.served = False


class _Group:
    """The connections of one address, by kind in the order in which their phases began.

    They work for a later request of their client, for its first one, or wait for their client."""

    __slots__ = ("held", "kinds")

    def __init__(self) -> None:
        self.kinds: tuple[dict[ClientConnection, None], ...] = ({}, {}, {})
        self.held = 0

    def __len__(self) -> int:
        return sum(map(len, self.kinds))

    def __iter__(self) -> Iterator[ClientConnection]:
        return chain(*self.kinds)

    def add(self, connection: ClientConnection) -> None:
        later, first, waiting = self.kinds
        kind = waiting if connection.phase is not Phase.RESPONSE else later if connection.served else first
        kind[connection] = None

    def remove(self, connection: ClientConnection) -> None:
        for kind in self.kinds:
            kind.pop(connection, None)


class ConnectionTable:
    """All connections of one server; what is done for one takes no longer with more of one address."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._groups: dict[str, _Group] = {}
        self._open: set[ClientConnection] = set()
        self._held = 0

    def __len__(self) -> int:
        return len(self._open)

    def open(self, peer: str | None, now: float) -> ClientConnection:
        """Return a new connection from an IP address."""
        connection = ClientConnection(counted_address(peer), now)
        self._open.add(connection)
        self._groups.setdefault(connection.address, _Group()).add(connection)
        return connection

    def close(self, connection: ClientConnection) -> None:
        """Forget a connection; do nothing for one that is not in the table any more, as all that follows."""
        if connection not in self._open:
            return
        self.hold(connection, -connection.held)
        self._open.remove(connection)
        group = self._groups[connection.address]
        group.remove(connection)
        if not group:
            del self._groups[connection.address]

    def enter(self, connection: ClientConnection, phase: Phase, now: float) -> None:
        if connection in self._open:
            group = self._groups[connection.address]
            group.remove(connection)
            connection.phase, connection.since = phase, now
            connection.served |= phase is Phase.IDLE
            group.add(connection)

    def hold(self, connection: ClientConnection, size: int) -> None:
        """Count bytes held for a connection, or released if `size` is negative."""
        if connection in self._open:
            connection.held += size
            self._groups[connection.address].held += size
            self._held += size

    def crowded_out(self, newcomer: ClientConnection) -> ClientConnection | None:
        """Return the connection to close because there are too many with `newcomer`, which itself stays.

        It is of the newcomer's address if that has too many, else of the address that has most, and there of the kind
        of which there are most the one whose phase is oldest: so neither idle connections nor long calls nor endless
        requests keep the others out."""
        crowd = self._groups[newcomer.address]
        if len(crowd) <= self.limits.per_address:
            if len(self._open) <= self.limits.connections:
                return None
            crowd = max(self._groups.values(), key=len)
        if len(crowd) == 1:
            return min(self._open - {newcomer}, key=lambda item: (item.phase is Phase.RESPONSE, item.since))
        most = max(crowd.kinds, key=len)
        return next(item for item in chain(most, crowd) if item is not newcomer)

    def heaviest(self) -> ClientConnection | None:
        """Return the connection to close for the bytes held: the one with most, of the address with most."""
        if self._held <= self.limits.held_bytes:
            return None
        group = max(self._groups.values(), key=lambda item: item.held)
        return max(group, key=lambda item: item.held)

    def expired(self, now: float) -> list[ClientConnection]:
        """Return the connections that have been in their phase for too long."""
        return [item for item in self._open if now - item.since > self._longest(item.phase)]

    def _longest(self, phase: Phase) -> float:
        longest = self.limits.response_seconds
        return phase.seconds if longest is None or phase is not Phase.RESPONSE else longest


def counted_address(peer: str | None) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address, which is what one customer usually has."""
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return UNKNOWN_ADDRESS
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
