"""The host's own services: identify [NET4], and ping [NET6]."""

import asyncio
import ipaddress
import os
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.p2p.addresses.ip import IpAddress, is_plausible_ip, parse_ip
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import IdentityError, PeerId, decode_public_key, short_peer_id
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.identify import IdentifyError, IdentifyMessage
from rollup_node.stages.p2p.host.io.host_api import ConnectionInfo, PeerIdentified, StreamError
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

log = get_logger("p2p")
PING_PROTOCOL = "/ipfs/ping/1.0.0"
PING_BYTES = 32
_SMOOTHING = 0.1
_ECHO_IDLE_SECONDS = 60.0


class IdentifyService:
    """Requests, serves and pushes identify, when our protocols change [NET4].

    `identified` has the messages of connected peers, pushes included."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self.identified: dict[PeerId, IdentifyMessage] = {}
        self._last_push: dict[PeerId, float] = {}
        self._pending_push: asyncio.TimerHandle | None = None

    def remove_peer(self, peer: PeerId) -> None:
        self.identified.pop(peer, None)
        self._last_push.pop(peer, None)

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
        if self._pending_push is None and self.identified:
            self._pending_push = asyncio.get_running_loop().call_later(_PUSH_DELAY, self._push_all)

    async def handle_identify(self, stream: Stream) -> None:
        async with asyncio.timeout(_TIMEOUT):
            await stream.write_message(self._encode_message(stream.peer))

    async def handle_push(self, stream: Stream) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_push.get(stream.peer, -PUSH_MIN_INTERVAL) < PUSH_MIN_INTERVAL:
            raise StreamError("identify pushes come too fast")
        if self._host.connection(stream.peer) is None:
            raise StreamError("peer disconnected")
        self._last_push[stream.peer] = now
        try:
            async with asyncio.timeout(_TIMEOUT):
                known = self.identified.get(stream.peer)
                self._consume_message(stream.peer, await _read_message(stream), known)
        except IdentifyError as error:
            raise StreamError(str(error)) from None

    def _consume_message(self, peer: PeerId, raw: bytes, known: IdentifyMessage | None) -> None:
        """Store a peer's message, merged into the `known` one if it is a push. Raises IdentifyError."""
        connection = self._host.connection(peer)
        if connection is None:
            return
        message = identify.decode(raw)
        _check_public_key(peer, message)
        if known is not None:
            message = identify.merge_push(known, message)
        self.identified[peer] = message
        seen_at = parse_ip(connection.remote_ips[0])
        dialable = [address for address in message.listen_addresses if _is_dialable(address, seen_at)]
        self._host.peerstore.add_addresses(peer, dialable, IDENTIFIED_TTL)
        stored = _first_protocols(message.protocols)
        record = IdentifyRecord(message.agent_version or "", message.protocol_version or "", stored)
        self._host.peerstore.set_record(peer, record)
        self._host.emit(PeerIdentified(peer, message))

    def _encode_message(self, peer: PeerId) -> bytes:
        connection = self._host.connection(peer)
        return identify.encode(
            key=self._host.identity.public_key.encode(),
            addresses=self._own_addresses(connection),
            protocols=self._host.protocols,
            observed=None if connection is None else connection.address,
            agent=self._host.config.user_agent,
        )

    def _own_addresses(self, connection: ConnectionInfo | None) -> Sequence[Multiaddr]:
        """Our addresses for this peer: the external one, and the local one of its connection if we listen there."""
        listen_ip = self._host.config.listen_ip
        local_ip = "" if connection is None else connection.local_ip
        ip = local_ip if ipaddress.ip_address(listen_ip).is_unspecified else listen_ip
        local = [tcp_multiaddr(ip, self._host.port)] if ip and self._host.port else []
        external = self._host.external_address
        return local if external is None or external in local else [external, *local]

    def _push_all(self) -> None:
        self._pending_push = None
        for peer, message in self.identified.items():
            if identify.PUSH_PROTOCOL in message.protocols:
                self._host.spawn(self._push(peer))

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


class PingService:
    """Echoes pings; `latencies` has the average round-trip time of connected peers in seconds [NET6]."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self.latencies: dict[PeerId, float] = {}

    def remove_peer(self, peer: PeerId) -> None:
        self.latencies.pop(peer, None)

    def add_latency(self, peer: PeerId, seconds: float) -> None:
        """Add a round-trip time to the moving average of a peer."""
        average = self.latencies.get(peer, seconds)
        self.latencies[peer] = average + _SMOOTHING * (seconds - average)
        log.trace("ping", peer=short_peer_id(peer), milliseconds=round(seconds * 1e3, 1))

    async def measure_latency(self, peer: PeerId) -> None:
        """Ping a peer to update its latency; a failure is logged only."""
        payload = os.urandom(PING_BYTES)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, stream = await self._host.open_stream(peer, (PING_PROTOCOL,))
                try:
                    sent_at = loop.time()
                    await stream.write(payload)
                    if await stream.read_exactly(PING_BYTES) != payload:
                        raise StreamError("wrong reply to a ping")
                    self.add_latency(peer, loop.time() - sent_at)
                finally:
                    stream.reset()
        except (StreamError, TimeoutError) as error:
            text = str(error) or f"no reply to a ping within {_TIMEOUT:g} s"
            log.debug("ping failed", peer=short_peer_id(peer), error=text)

    async def echo(self, stream: Stream) -> None:
        while True:
            async with asyncio.timeout(_ECHO_IDLE_SECONDS):
                data = await stream.read(PING_BYTES)
                if not data:
                    return
                if len(data) < PING_BYTES:
                    data += await stream.read_exactly(PING_BYTES - len(data))
                await stream.write(data)
