"""Limits on accepting connections: few per host, and a bounded number of unfinished handshakes.

When that number is reached, the oldest handshake of the most crowded address is evicted, so that slow or idle
connections never keep others out."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from rollup_node.stages.p2p.addresses.ip import colocation_groups, parse_ip

MAX_PER_HOST = 8
"""Connections of one IPv4 address, as in go-libp2p, or of one IPv6 /64."""

C = TypeVar("C")


class PendingHandshakes(Generic[C]):
    """Inbound connections whose handshake is unfinished, oldest first."""

    def __init__(self, max_pending: int) -> None:
        self._max_pending = max_pending
        self._connections: OrderedDict[C, str] = OrderedDict()
        self._per_ip: Counter[str] = Counter()

    def __iter__(self) -> Iterator[C]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: C, ip: str) -> C | None:
        """Add a connection; returns the one that must be aborted for it, None while there is room."""
        evicted = self._choose_evicted() if len(self._connections) >= self._max_pending else None
        if evicted is not None:
            self.remove(evicted)
        self._connections[connection] = ip
        self._per_ip[ip] += 1
        return evicted

    def remove(self, connection: C) -> None:
        ip = self._connections.pop(connection, None)
        if ip is not None:
            self._per_ip[ip] -= 1
            if not self._per_ip[ip]:
                del self._per_ip[ip]

    def drain(self) -> list[C]:
        drained = list(self._connections)
        self._connections.clear()
        self._per_ip.clear()
        return drained

    def _choose_evicted(self) -> C | None:
        if not self._connections:
            return None
        crowded = max(self._per_ip, key=lambda ip: self._per_ip[ip])
        return next(connection for connection, ip in self._connections.items() if ip == crowded)


def is_over_host_limit(ip: str, others: Iterable[str]) -> bool:
    """Whether the host of an address already has as many connections as it may. Loopback is exempt."""
    group = colocation_groups(ip)[-1]
    return (
        not parse_ip(ip).is_loopback and sum(colocation_groups(other)[-1] == group for other in others) >= MAX_PER_HOST
    )
