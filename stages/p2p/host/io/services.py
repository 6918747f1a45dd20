"""The host's own services: identify [NET4], and ping [NET6]."""

import asyncio
import ipaddress
import os
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.p2p.addresses.ip import IpAddress, is_plausible_ip, parse_ip
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import IdentityError, PeerId, decode_public_key, short_peer_id
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.identify import IdentifyError, IdentifyMessage
from rollup_node.stages.p2p.host.io.host_api import ConnectedPeer, PeerIdentified, StreamError
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.storage.io.peerstore import IDENTIFIED_TTL
from rollup_node.stages.p2p.storage.peer_record import IdentifyRecord

if TYPE_CHECKING:
    from rollup_node.stages.p2p.host.io.host import Host

PUSH_MIN_INTERVAL = 1.0
"""Seconds between two pushes of one peer; an earlier one is rejected."""
MAX_STORED_CHARACTERS = 2048
"""Of the names of a peer's protocols; the peerstore keeps them for days after any stranger has left."""
_PUSH_ATTEMPTS = 3
_TIMEOUT = 10.0
_MAX_PARTS = 10
_PUSH_DELAY = 0.1

log = Logger("p2p")
PING_PROTOCOL = "/ipfs/ping/1.0.0"
PING_BYTES = 32
_ECHO_IDLE_SECONDS = 60.0


class IdentifyService:
    """Requests, serves and pushes identify, when our protocols change [NET4]."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._pending_push: asyncio.TimerHandle | None = None

    async def identify_peer(self, peer: PeerId) -> None:
        """Request identify from a new peer; without a valid response the peer stays connected, unidentified."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, stream = await self._host.open_stream(peer, (identify.PROTOCOL,))
                stream.close()
                self._consume_message(peer, await _read_message(stream), None)
        except (StreamError, IdentifyError, TimeoutError) as error:
            log.debug("identify failed", peer=short_peer_id(peer), error=str(error) or "timeout")

    def protocols_changed(self) -> None:
        """Schedule a push to all identified peers; changes that follow at once share it."""
        if self._pending_push is None and any(connected.identify for connected in self._host.connections()):
            self._pending_push = asyncio.get_running_loop().call_later(_PUSH_DELAY, self._push_all)

    async def handle_identify(self, stream: Stream) -> None:
        async with asyncio.timeout(_TIMEOUT):
            await stream.write_message(self._encode_message(stream.peer))

    async def handle_push(self, stream: Stream) -> None:
        now, connected = asyncio.get_running_loop().time(), self._host.connection(stream.peer)
        if connected is None:
            raise StreamError("peer disconnected")
        if now - connected.pushed_at < PUSH_MIN_INTERVAL:
            raise StreamError("identify pushes come too fast")
        connected.pushed_at, known = now, connected.identify
        try:
            async with asyncio.timeout(_TIMEOUT):
                self._consume_message(stream.peer, await _read_message(stream), known)
        except IdentifyError as error:
            raise StreamError(str(error)) from None

    def _consume_message(self, peer: PeerId, raw: bytes, known: IdentifyMessage | None) -> None:
        """Store a peer's message, merged into the `known` one if it is a push. Raises IdentifyError."""
        connected = self._host.connection(peer)
        if connected is None:
            return
        message = identify.decode(raw)
        _check_public_key(peer, message)
        if known is not None:
            message = identify.merge_push(known, message)
        connected.identify = message
        seen_at = parse_ip(connected.oldest.remote_ip)
        dialable = [address for address in message.listen_addresses if _is_dialable(address, seen_at)]
        self._host.peerstore.add_addresses(peer, dialable, IDENTIFIED_TTL)
        stored = _first_protocols(message.protocols)
        record = IdentifyRecord(message.agent_version or "", message.protocol_version or "", stored)
        self._host.peerstore.set_record(peer, record)
        self._host.emit(PeerIdentified(peer, message))

    def _encode_message(self, peer: PeerId) -> bytes:
        connected = self._host.connection(peer)
        return identify.encode(
            key=self._host.identity.public_key.encode(),
            addresses=self._own_addresses(connected),
            protocols=self._host.protocols,
            observed=None if connected is None else connected.address,
            agent=self._host.config.user_agent,
        )

    def _own_addresses(self, connected: ConnectedPeer | None) -> Sequence[Multiaddr]:
        """Our addresses for this peer: the external one, and the local one of its connection if we listen there."""
        listen_ip = self._host.config.listen_ip
        local_ip = "" if connected is None else connected.oldest.local_ip
        ip = local_ip if ipaddress.ip_address(listen_ip).is_unspecified else listen_ip
        local = [tcp_multiaddr(ip, self._host.port)] if ip and self._host.port else []
        external = self._host.external_address
        return local if external is None or external in local else [external, *local]

    def _push_all(self) -> None:
        self._pending_push = None
        for connected in self._host.connections():
            if connected.identify is not None and identify.PUSH_PROTOCOL in connected.identify.protocols:
                self._host.spawn(self._push(connected.peer))

    async def _push(self, peer: PeerId) -> None:
        """Push the current message, again when the peer rejects it for coming too soon."""
        for _ in range(_PUSH_ATTEMPTS):
            try:
                async with asyncio.timeout(_TIMEOUT):
                    _, stream = await self._host.open_stream(peer, (identify.PUSH_PROTOCOL,))
                    await stream.write_message(self._encode_message(peer))
                    stream.close()
                    await stream.read_all(0)
                return
            except (StreamError, TimeoutError) as error:
                log.trace("identify push failed", peer=short_peer_id(peer), error=str(error) or "timeout")
            await asyncio.sleep(2 * PUSH_MIN_INTERVAL)
            if self._host.connection(peer) is None:
                return


async def _read_message(stream: Stream) -> bytes:
    """Read a message, which may come in several length-prefixed parts that form one protobuf message."""
    parts: list[bytes] = []
    left = identify.MAX_MESSAGE_BYTES
    while len(parts) < _MAX_PARTS and (part := await stream.read_message(left)) is not None:
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _check_public_key(peer: PeerId, message: IdentifyMessage) -> None:
    """Raise IdentifyError when the message holds another peer's key."""
    if message.public_key is None:
        return
    try:
        if decode_public_key(message.public_key).peer_id == peer:
            return
    except IdentityError as error:
        raise IdentifyError(str(error)) from None
    raise IdentifyError("the public key is another peer's")


def _first_protocols(protocols: Sequence[str]) -> tuple[str, ...]:
    """Return the first protocols, as many as may be stored."""
    ends = accumulate(map(len, protocols))
    return tuple(name for name, end in zip(protocols, ends, strict=True) if end <= MAX_STORED_CHARACTERS)


def _is_dialable(address: Multiaddr, seen_at: IpAddress) -> bool:
    target = address.tcp
    if target is None or not target.port:
        return False
    return target.is_host_name or is_plausible_ip(parse_ip(target.host), seen_at)


async def measure_latency(host: "Host", peer: PeerId) -> None:
    """Ping a peer to update its latency [NET6]; a failure is logged only."""
    payload = os.urandom(PING_BYTES)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_TIMEOUT):
            _, stream = await host.open_stream(peer, (PING_PROTOCOL,))
            try:
                sent_at = loop.time()
                await stream.write(payload)
                if await stream.read_exactly(PING_BYTES) != payload:
                    raise StreamError("wrong reply to a ping")
                seconds = loop.time() - sent_at
            finally:
                stream.reset()
    except (StreamError, TimeoutError) as error:
        text = str(error) or f"no reply to a ping within {_TIMEOUT:g} s"
        log.debug("ping failed", peer=short_peer_id(peer), error=text)
        return
    log.trace("ping", peer=short_peer_id(peer), milliseconds=round(seconds * 1e3, 1))
    connected = host.connection(peer)
    if connected is not None:
        connected.add_latency(seconds)


async def echo_pings(stream: Stream) -> None:
    """Answer the pings of a peer [NET6]."""
    while True:
        async with asyncio.timeout(_ECHO_IDLE_SECONDS):
            data = await stream.read(PING_BYTES)
            if not data:
                return
            if len(data) < PING_BYTES:
                data += await stream.read_exactly(PING_BYTES - len(data))
            await stream.write(data)
