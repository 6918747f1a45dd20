"""The dialer: one attempt per peer, a bounded number over all, each address in turn [NET5]."""

import asyncio
import os
import socket
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, TcpAddress
from rollup_node.stages.p2p.addresses.peer_id import PeerId, short_peer_id
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.io.connection import Connection, TransportError
from rollup_node.stages.p2p.host.io.host_api import DialError, Direction

if TYPE_CHECKING:
    from rollup_node.stages.p2p.host.io.host import Host

MAX_ADDRESSES = 8
_MAX_ERRORS = 256
_TOTAL_TIMEOUTS = 3.0
"""Bound on the time for all addresses of a peer, in dial timeouts."""


class Dialer:
    """Dials for one host. `last_errors` has the reason why the last attempt failed, for the peers dialled last."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._concurrency = asyncio.Semaphore(host.limits.dials)
        self._running: dict[PeerId, asyncio.Task[None]] = {}
        self.last_errors: OrderedDict[PeerId, str] = OrderedDict()

    async def dial(self, peer: PeerId, addresses: Sequence[Multiaddr]) -> None:
        """Connect to the peer, or wait for the attempt that runs already. Raises DialError."""
        task = self._running.get(peer)
        if task is None:
            task = self._running[peer] = asyncio.get_running_loop().create_task(self._dial(peer, addresses))
            task.add_done_callback(lambda done: self._dial_done(peer, done))
        try:
            # One caller's timeout must not cancel the attempt that others wait for.
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise DialError(PeerDropReason.SHUTTING_DOWN.text) from None
            raise

    def stop(self) -> None:
        for task in self._running.values():
            task.cancel()

    def _dial_done(self, peer: PeerId, task: asyncio.Task[None]) -> None:
        self._running.pop(peer, None)
        self.last_errors.pop(peer, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.last_errors[peer] = str(error)
            if len(self.last_errors) > _MAX_ERRORS:
                self.last_errors.popitem(last=False)

    async def _dial(self, peer: PeerId, addresses: Sequence[Multiaddr]) -> None:
        denied = self._host.intercept_peer(peer)
        if denied is not None:
            raise DialError(f"{short_peer_id(peer)}: {denied.text}")
        known = list(dict.fromkeys(addresses or self._host.peerstore.addresses(peer)))
        if not known:
            raise DialError(f"no known address of {short_peer_id(peer)}")
        errors: list[str] = []
        timeout = self._host.config.dial_timeout
        try:
            async with self._concurrency, asyncio.timeout(_TOTAL_TIMEOUTS * timeout):
                for address in known[:MAX_ADDRESSES]:
                    error = await self._dial_address(peer, address)
                    if error is None:
                        return
                    errors.append(f"{address}: {error}")
        except TimeoutError:
            errors.append(f"no connection within {_TOTAL_TIMEOUTS * timeout:g} s")
        raise DialError("; ".join(errors))

    async def _dial_address(self, peer: PeerId, address: Multiaddr) -> str | None:
        """Dial one address; returns the error, None when it succeeds."""
        target = address.tcp
        if target is None:
            return "not a TCP address"
        if address.peer_id not in (None, peer):
            return "the address of another peer"
        error: str | None = "the name has no address"
        try:
            for ip in await _resolve(target):
                denied = self._host.intercept_addr_dial(ip)
                error = denied.text if denied else await self._dial_ip(peer, ip, target.port)
                if error is None:
                    return None
        except OSError as failure:
            return f"the name cannot be resolved: {failure.strerror}"
        return error

    async def _dial_ip(self, peer: PeerId, ip: str, port: int) -> str | None:
        timeout = self._host.config.dial_timeout
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._host, Direction.OUTBOUND, peer), ip, port
                )
            try:
                await connection.ready
            except asyncio.CancelledError:
                # Otherwise the socket stays open, and the peer counts it as a connection.
                connection.abort(PeerDropReason.SHUTTING_DOWN)
                raise
        except TimeoutError:
            return f"no answer within {timeout:g} s"
        except OSError as error:
            return os.strerror(error.errno) if error.errno else str(error)
        except TransportError as error:
            return str(error)
        return None


async def _resolve(target: TcpAddress) -> list[str]:
    """Return the IP addresses of a dial target. Raises OSError when its name cannot be resolved."""
    if not target.is_host_name:
        return [target.host]
    family = {"ip4": socket.AF_INET, "ip6": socket.AF_INET6}.get(target.family or "", socket.AF_UNSPEC)
    loop = asyncio.get_running_loop()
    result = await loop.getaddrinfo(target.host, target.port, family=family, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in result))
