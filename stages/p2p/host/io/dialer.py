"""Dialling: one attempt per peer at a time, few at once over all, each address in turn until one leads to the peer."""

import asyncio
import os
import socket
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, TcpAddress
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.host.io.connection import Connection, ConnectionOwner, TransportError
from rollup_node.stages.p2p.host.io.host_api import DialError, Direction
from rollup_node.stages.p2p.identity.peer_id import PeerId, short_peer_id
from rollup_node.stages.p2p.peerstore.io.peerstore import PeerStore

MAX_ADDRESSES = 8
_MAX_ERRORS = 256
_TOTAL_TIMEOUTS = 3.0
"""How many dial timeouts all addresses of a peer may take together."""


class DialingHost(ConnectionOwner, Protocol):
    """What dialling needs of the host."""

    config: P2pConfig
    peerstore: PeerStore

    def intercept_addr_dial(self, ip: str) -> str | None:
        """Why an address may not be dialled."""

    def intercept_peer(self, peer: PeerId) -> str | None:
        """Why there may be no connection with a peer."""


class Dialer:
    """See the module. `problems` tells why the last attempt failed, for the peers dialled last."""

    def __init__(self, host: DialingHost) -> None:
        self._host = host
        self._concurrency = asyncio.Semaphore(host.limits.dials)
        self._running: dict[PeerId, asyncio.Task[None]] = {}
        self.last_errors: OrderedDict[PeerId, str] = OrderedDict()

    async def dial(self, peer: PeerId, addresses: Sequence[Multiaddr]) -> None:
        """A connection to the peer at one of the addresses, or those known; DialError says why there is none. Who asks
        for a peer that is being dialled waits for that attempt."""
        task = self._running.get(peer)
        if task is None:
            task = self._running[peer] = asyncio.get_running_loop().create_task(self._dial(peer, addresses))
            task.add_done_callback(lambda ended: self._ended(peer, ended))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise DialError("we are stopping") from None
            raise

    def stop(self) -> None:
        """Ends all attempts."""
        for task in self._running.values():
            task.cancel()

    def _ended(self, peer: PeerId, task: asyncio.Task[None]) -> None:
        self._running.pop(peer, None)
        self.last_errors.pop(peer, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.last_errors[peer] = str(error)
            if len(self.last_errors) > _MAX_ERRORS:
                self.last_errors.popitem(last=False)

    async def _dial(self, peer: PeerId, addresses: Sequence[Multiaddr]) -> None:
        refusal = self._host.intercept_peer(peer)
        if refusal is not None:
            raise DialError(f"{short_peer_id(peer)}: {refusal}")
        known = list(dict.fromkeys(addresses or self._host.peerstore.addresses(peer)))
        if not known:
            raise DialError(f"no address of {short_peer_id(peer)} is known")
        problems: list[str] = []
        timeout = self._host.config.dial_timeout
        try:
            async with self._concurrency, asyncio.timeout(_TOTAL_TIMEOUTS * timeout):
                for address in known[:MAX_ADDRESSES]:
                    problem = await self._dial_address(peer, address)
                    if problem is None:
                        return
                    problems.append(f"{address}: {problem}")
        except TimeoutError:
            problems.append(f"no connection within {_TOTAL_TIMEOUTS * timeout:g} s")
        raise DialError("; ".join(problems))

    async def _dial_address(self, peer: PeerId, address: Multiaddr) -> str | None:
        """Dials one address; what went wrong, or None."""
        target = address.tcp
        if target is None:
            return "not an address for TCP"
        if address.peer_id not in (None, peer):
            return "the address of another peer"
        problem: str | None = "the name has no address"
        try:
            for ip in await _resolve(target):
                problem = self._host.intercept_addr_dial(ip)
                if problem is None:
                    problem = await self._dial_ip(peer, ip, target.port)
                if problem is None:
                    return None
        except OSError as error:
            return f"the name cannot be resolved: {error.strerror}"
        return problem

    async def _dial_ip(self, peer: PeerId, ip: str, port: int) -> str | None:
        timeout = self._host.config.dial_timeout
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._host, Direction.OUTBOUND, peer), ip, port
                )
            await connection.ready
        except TimeoutError:
            return f"no answer within {timeout:g} s"
        except OSError as error:
            return os.strerror(error.errno) if error.errno else str(error)
        except TransportError as error:
            return str(error)
        return None


async def _resolve(target: TcpAddress) -> list[str]:
    """The IP addresses of a host."""
    if not target.is_host_name:
        return [target.host]
    family = {"ip4": socket.AF_INET, "ip6": socket.AF_INET6}.get(target.family or "", socket.AF_UNSPEC)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, family=family, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
