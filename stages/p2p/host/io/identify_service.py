"""The identify service: asks every new peer who it is, answers the same question, and tells connected peers when what
we serve changes."""

import asyncio
import ipaddress
from collections.abc import Coroutine
from typing import Any, Protocol

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.gating.connection_gater import is_believable, parse_ip
from rollup_node.stages.p2p.host.host_api import HostApi, HostEvent, PeerIdentified, Stream, StreamError
from rollup_node.stages.p2p.host.io.connection import Connection
from rollup_node.stages.p2p.identity import identify
from rollup_node.stages.p2p.identity.identify import Identified, IdentifyError
from rollup_node.stages.p2p.identity.multiaddr import Multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.identity.peer_id import (
    Identity,
    IdentityError,
    PeerId,
    decode_public_key,
    short_text,
)
from rollup_node.stages.p2p.peerstore.io.peerstore import CLAIMED_TTL, PeerStore
from rollup_node.stages.p2p.peerstore.peer_record import PeerDescription

_TIMEOUT = 10.0
_MOST_MESSAGES = 10
_PUSH_DELAY = 0.1
_PUSH_PAUSE = 1.0

log = get_logger("p2p")


class IdentifyingHost(HostApi, Protocol):
    """What this service needs of the host."""

    config: P2pConfig
    identity: Identity
    store: PeerStore
    port: int
    external: Multiaddr | None

    @property
    def protocols(self) -> tuple[str, ...]:
        """What we serve."""

    def live(self, peer: PeerId) -> list[Connection]:
        """The connections of a peer."""

    def emit(self, event: HostEvent) -> None:
        """Tells all listeners."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a task until the host stops."""


class IdentifyService:
    """See the module."""

    def __init__(self, host: IdentifyingHost) -> None:
        self._host = host
        self._known: dict[PeerId, Identified] = {}
        self._last_push: dict[PeerId, float] = {}
        self._pending: asyncio.TimerHandle | None = None

    def serve(self) -> None:
        """Registers our protocols."""
        self._host.handle(identify.PROTOCOL, self._answer)
        self._host.handle(identify.PUSH_PROTOCOL, self._take_push)

    def known(self, peer: PeerId) -> Identified | None:
        """What a connected peer said of itself; None before it did."""
        return self._known.get(peer)

    def forget(self, peer: PeerId) -> None:
        """The peer is gone."""
        self._known.pop(peer, None)
        self._last_push.pop(peer, None)

    async def ask(self, connection: Connection) -> None:
        """Asks a new peer; one that does not answer stays, unidentified."""
        peer = connection.peer
        try:
            async with asyncio.timeout(_TIMEOUT):
                stream = await connection.open_stream((identify.PROTOCOL,))
                stream.close()
                self._take(peer, await _read(stream), None)
        except (StreamError, IdentifyError, TimeoutError) as error:
            log.debug("peer not identified", peer=short_text(peer), why=str(error) or "no answer in time")

    def changed(self) -> None:
        """What we serve has changed: connected peers hear of it soon."""
        if self._pending is None and self._known:
            self._pending = asyncio.get_running_loop().call_later(_PUSH_DELAY, self._push_all)

    async def _answer(self, stream: Stream) -> None:
        async with asyncio.timeout(_TIMEOUT):
            await stream.write_message(self._message(stream.peer))

    async def _take_push(self, stream: Stream) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_push.get(stream.peer, -_PUSH_PAUSE) < _PUSH_PAUSE:
            raise StreamError("identify is pushed too often")
        if not self._host.live(stream.peer):
            raise StreamError("the peer is gone")
        self._last_push[stream.peer] = now
        try:
            async with asyncio.timeout(_TIMEOUT):
                self._take(stream.peer, await _read(stream), self._known.get(stream.peer))
        except IdentifyError as error:
            raise StreamError(str(error)) from None

    def _take(self, peer: PeerId, message: bytes, before: Identified | None) -> None:
        """Takes in what a connected peer says; what a push leaves out stays as it was."""
        live = self._host.live(peer)
        if not live:
            return
        found = identify.decode(message)
        _check_key(peer, found)
        if before is not None:
            found = identify.merged(before, found)
        self._known[peer] = found
        seen = parse_ip(live[0].ip)
        claimed = [address for address in found.addresses if _is_worth_trying(address, seen)]
        self._host.store.add_addresses(peer, claimed, CLAIMED_TTL)
        description = PeerDescription(found.agent or "", found.version or "", found.protocols)
        self._host.store.set_description(peer, description)
        self._host.emit(PeerIdentified(peer, found))

    def _message(self, peer: PeerId) -> bytes:
        live = self._host.live(peer)
        return identify.encode(
            key=self._host.identity.public_key.encode(),
            addresses=self._own_addresses(live[0].local_ip if live else ""),
            protocols=self._host.protocols,
            observed=live[0].address if live else None,
            agent=self._host.config.user_agent,
        )

    def _own_addresses(self, local_ip: str) -> list[Multiaddr]:
        """How this peer may reach us: the known outer address, and the one it is connected to if we listen there."""
        listening = self._host.config.listen_ip
        everywhere = ipaddress.ip_address(listening).is_unspecified
        inner = local_ip if everywhere else listening
        found = [tcp_multiaddr(inner, self._host.port)] if inner and self._host.port else []
        outer = self._host.external
        return found if outer is None or outer in found else [outer, *found]

    def _push_all(self) -> None:
        self._pending = None
        for peer, identified in self._known.items():
            if identify.PUSH_PROTOCOL in identified.protocols:
                self._host.spawn(self._push(peer))

    async def _push(self, peer: PeerId) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, stream = await self._host.open_stream(peer, (identify.PUSH_PROTOCOL,))
                await stream.write_message(self._message(peer))
                stream.close()
                await stream.read_all(0)
        except (StreamError, TimeoutError) as error:
            log.trace("identify not pushed", peer=short_text(peer), why=str(error))


async def _read(stream: Stream) -> bytes:
    """The message of a stream, which may come in parts that are to be read as one."""
    parts: list[bytes] = []
    room = identify.LONGEST
    while len(parts) < _MOST_MESSAGES and (part := await stream.read_message(room)) is not None:
        parts.append(part)
        room -= len(part)
    return b"".join(parts)


def _check_key(peer: PeerId, found: Identified) -> None:
    """Refuses a message about somebody else."""
    if found.key is None:
        return
    try:
        if decode_public_key(found.key).peer_id == peer:
            return
    except IdentityError as error:
        raise IdentifyError(str(error)) from None
    raise IdentifyError("the key is another peer's")


def _is_worth_trying(address: Multiaddr, seen: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    target = address.tcp
    if target is None or not target.port:
        return False
    return target.is_name or is_believable(parse_ip(target.host), seen)
