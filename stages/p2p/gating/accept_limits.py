"""Which connections may come in. One host has few of them. The number of those that wait for the end of their handshake
is bounded; when it is reached, the oldest one of the most crowded address makes room, so that slow or idle connections
never keep others out."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from rollup_node.stages.p2p.addresses.ip import colocation_groups, parse_ip

MAX_PER_HOST = 8
"""Connections of one IPv4 address, as in libp2p, or one IPv6 network of 64 bits."""

C = TypeVar("C")


class PendingHandshakes(Generic[C]):
    """Inbound connections in their handshake, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._connections: OrderedDict[C, str] = OrderedDict()
        self._per_ip: Counter[str] = Counter()

    def __iter__(self) -> Iterator[C]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: C, ip: str) -> C | None:
        """Lets one in; gives the one that must go for it."""
        evicted = self._choose_evicted() if len(self._connections) >= self._most else None
        if evicted is not None:
            self.remove(evicted)
        self._connections[connection] = ip
        self._per_ip[ip] += 1
        return evicted

    def remove(self, connection: C) -> None:
        """The handshake of this one is over, in whatever way."""
        ip = self._connections.pop(connection, None)
        if ip is not None:
            self._per_ip[ip] -= 1
            if not self._per_ip[ip]:
                del self._per_ip[ip]

    def drain(self) -> list[C]:
        """Gives out all that wait, and forgets them."""
        waiting = list(self._connections)
        self._connections.clear()
        self._per_ip.clear()
        return waiting

    def _choose_evicted(self) -> C | None:
        if not self._connections:
            return None
        crowded = max(self._per_ip, key=lambda ip: self._per_ip[ip])
        return next(connection for connection, ip in self._connections.items() if ip == crowded)


def is_over_host_limit(ip: str, others: Iterable[str]) -> bool:
    """Whether the host of an address has all the connections it may have; our own machine may have any number."""
    place = colocation_groups(ip)[-1]
    return (
        not parse_ip(ip).is_loopback and sum(colocation_groups(other)[-1] == place for other in others) >= MAX_PER_HOST
    )
