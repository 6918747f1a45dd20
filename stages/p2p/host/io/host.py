"""The host: connections to all peers, their streams for services' handlers, and events [NET1 to NET6]."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.system import stop_accepting
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.addresses.ip import colocation_groups, parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, PeerId, peer_id_text, short_peer_id
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.gating.connections import (
    ConnectionGater,
    ConnectionManager,
    MemoryBudget,
    PendingHandshakes,
    WorkShares,
    is_over_host_limit,
)
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host import identify
from rollup_node.stages.p2p.host.io import host_api
from rollup_node.stages.p2p.host.io.connection import KEEPALIVE_INTERVAL, Connection, TransportError
from rollup_node.stages.p2p.host.io.dialer import Dialer
from rollup_node.stages.p2p.host.io.services import PING_PROTOCOL, IdentifyService, echo_pings
from rollup_node.stages.p2p.host.io.streams import Stream, StreamHandler
from rollup_node.stages.p2p.storage.io.peerstore import DISCOVERED_TTL, PeerStore

_BACKLOG = 256
_STOP_SECONDS = 1.5
_MAX_CLOSED_CONNECTIONS = 256
_DROP_WARNING_INTERVAL = 60.0

log = Logger("p2p")


class ClosedConnection(NamedTuple):
    """A connection that has ended: the reason, and its duration in seconds."""

    peer: PeerId
    reason: str
    seconds: float


class Host:
    """The libp2p host.

    After a change of `connection_gater` call `save_gater`; `external_address` is where other machines reach us, if
    known. `closed_connections` and `dialer.last_errors` have the most recent ones, for the diagnosis."""

    def __init__(self, config: P2pConfig, identity: NetworkIdentity, store: PeerStore, meter: Meter) -> None:
        self.config, self.identity, self.peerstore, self.meter = config, identity, store, meter
        self.limits = config.limits
        self.keepalive_interval = KEEPALIVE_INTERVAL
        self.connection_gater: ConnectionGater = store.load_gater([parse_subnet(text) for text in config.netrestrict])
        self.connection_manager = ConnectionManager(config.peers_lo, config.peers_hi, config.peers_grace)
        self.external_address: Multiaddr | None = None
        self.closed_connections: deque[ClosedConnection] = deque(maxlen=_MAX_CLOSED_CONNECTIONS)
        self.bytes_in = self.bytes_out = 0
        self.held: MemoryBudget[Stream] = MemoryBudget(config.limits.held_bytes)
        self._work_shares = WorkShares()
        self._drop_warned_at = -_DROP_WARNING_INTERVAL
        self._drops_since_warning = 0
        self.port = 0
        self.identify = IdentifyService(self)
        self._connected: dict[PeerId, host_api.ConnectedPeer] = {}
        self.pending_handshakes: PendingHandshakes[Connection] = PendingHandshakes(config.limits.half_open)
        self.stream_handlers: dict[str, StreamHandler] = {
            identify.PROTOCOL: self.identify.handle_identify,
            identify.PUSH_PROTOCOL: self.identify.handle_push,
            PING_PROTOCOL: echo_pings,
        }
        self._subscribers: list[Callable[[host_api.HostEvent], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        self.dialer = Dialer(self)

    async def start(self) -> None:
        """Start listening [NET2]. Raises TransportError when the address cannot be bound."""
        ip, port = self.config.listen_ip, self.config.listen_tcp
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self, host_api.Direction.INBOUND), ip, port, backlog=_BACKLOG
            )
        except OSError as error:
            raise TransportError(
                f"cannot listen for peers on {ip}:{port}: {error.strerror} (p2p.listen.ip, p2p.listen.tcp)"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("listening for peers", address=str(self.addresses[0]), peer=peer_id_text(self.peer_id))

    async def stop(self) -> None:
        """Close all connections and end all tasks, within two seconds. Handshakes that end later are denied."""
        self._is_stopping = True
        if self._server is not None:
            await stop_accepting(self._server)
        for peer in self.peers():
            self.disconnect(peer, PeerDropReason.SHUTTING_DOWN)
        for pending in self.pending_handshakes.drain():
            pending.abort(PeerDropReason.SHUTTING_DOWN)
        self.dialer.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        # Transports that were just closed report it in the loop's next iteration.
        await asyncio.sleep(0)

    # --- called by services ----------------------------------------------------------------------------------------

    @property
    def peer_id(self) -> PeerId:
        return self.identity.peer_id

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Our external address, if it is known, and the listen address, without peer id."""
        listening = tcp_multiaddr(self.config.listen_ip, self.port)
        external = self.external_address
        return (listening,) if external is None or external == listening else (external, listening)

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(self.stream_handlers)

    def set_stream_handler(self, protocol: str, handler: StreamHandler) -> None:
        """Serve inbound streams of a protocol; identify is pushed to connected peers."""
        self.stream_handlers[protocol] = handler
        self.identify.protocols_changed()

    def subscribe(self, handler: Callable[[host_api.HostEvent], None]) -> None:
        """Subscribe to events from now on; handlers are synchronous and must not block."""
        self._subscribers.append(handler)

    def emit(self, event: host_api.HostEvent) -> None:
        """Deliver an event to all subscribers; one that raises does not keep it from the others."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception as error:
                log.crash("event subscriber failed", error, event=type(event).__name__)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task until the host stops; an exception is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    async def connect(self, peer: PeerId, addresses: Sequence[Multiaddr] = ()) -> None:
        """Dial the peer unless it is connected. Raises DialError."""
        if peer not in self._connected:
            await self.dialer.dial(peer, addresses)

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> tuple[str, Stream]:
        """Open a stream on the peer's oldest connection; return protocol and stream. Raises StreamError."""
        connected = self._connected.get(peer)
        if connected is None:
            raise host_api.StreamError(f"{short_peer_id(peer)} is not connected")
        stream = await connected.oldest.open_stream(tuple(protocols))
        return stream.protocol, stream

    def peers(self) -> list[PeerId]:
        return list(self._connected)

    def connections(self) -> list[host_api.ConnectedPeer]:
        return list(self._connected.values())

    def connection(self, peer: PeerId) -> host_api.ConnectedPeer | None:
        """Return a connected peer; None if it is not connected."""
        return self._connected.get(peer)

    def connections_to_peer(self, peer: PeerId) -> list[Connection]:
        """Return the connections of a peer, oldest first."""
        connected = self._connected.get(peer)
        return [] if connected is None else list(connected.connections)

    def disconnect(self, peer: PeerId, reason: PeerDropReason, detail: str = "") -> None:
        for connection in self.connections_to_peer(peer):
            connection.close(reason, detail)

    # --- connection gating [NET12, NET13] ---------------------------------------------------------------------------

    def save_gater(self) -> None:
        """Write bans and blocks to the peerstore."""
        self.peerstore.save_gater(self.connection_gater)

    def ban(self, peer: PeerId, seconds: float, reason: str) -> None:
        """Ban a peer for a time and close its connections [SCR7]."""
        self.connection_gater.peer_bans[peer] = time.time() + seconds
        self.save_gater()
        log.info("peer banned", peer=short_peer_id(peer), seconds=seconds, reason=reason)
        self.disconnect(peer, PeerDropReason.BANNED, reason)

    def intercept_peer(self, peer: PeerId) -> PeerDropReason | None:
        """Return the reason why a connection with the peer is denied, None when it is allowed."""
        if peer == self.peer_id:
            return PeerDropReason.ITSELF
        return self.connection_gater.peer_deny_reason(peer, time.time())

    def intercept_addr_dial(self, ip: str) -> PeerDropReason | None:
        """Return the reason why dialling an address is denied, None when it is allowed."""
        denied = self.connection_gater.ip_deny_reason(parse_ip(ip))
        self.meter.count("p2p_dials", allow=str(denied is None).lower())
        return denied

    def intercept_accept(self, connection: Connection) -> PeerDropReason | None:
        """Let an inbound connection begin its handshake, or return why not; dialled ones were checked before."""
        if connection.direction is host_api.Direction.OUTBOUND:
            return None
        if self._is_stopping:
            return PeerDropReason.SHUTTING_DOWN
        denied = self.connection_gater.ip_deny_reason(parse_ip(connection.remote_ip))
        others = [other.remote_ip for other in self._all_connections()]
        if denied is None and is_over_host_limit(connection.remote_ip, others):
            denied = PeerDropReason.TOO_MANY_OF_HOST
        self.meter.count("p2p_accepts", allow=str(denied is None).lower())
        if denied is None:
            evicted = self.pending_handshakes.add(connection, colocation_groups(connection.remote_ip)[-1])
            if evicted is not None:
                evicted.abort(PeerDropReason.TOO_MANY_HANDSHAKES)
        return denied

    # --- called by connections -------------------------------------------------------------------------------------

    def connection_upgraded(self, connection: Connection) -> PeerDropReason | None:
        """Add a connection to those of its peer, or return why it is denied."""
        self.pending_handshakes.remove(connection)
        peer = connection.peer
        stops = PeerDropReason.SHUTTING_DOWN if self._is_stopping else None
        denied = stops or self.intercept_peer(peer) or self._limit_exceeded(connection)
        if denied is not None:
            log.debug(
                "connection denied",
                peer=short_peer_id(peer),
                address=str(connection.remote_address),
                reason=denied.text,
            )
            return denied
        connected = self._connected.setdefault(peer, host_api.ConnectedPeer(peer))
        connected.connections.append(connection)
        address = connection.remote_address
        assert address is not None
        if connection.direction is host_api.Direction.OUTBOUND:
            self.peerstore.add_addresses(peer, [address], DISCOVERED_TTL)
        if len(connected.connections) == 1:
            direction = connection.direction
            log.debug("peer connected", peer=short_peer_id(peer), address=str(address), direction=direction.name)
            self.emit(host_api.PeerConnected(peer, direction, address))
            self.spawn(self.identify.identify_peer(peer))
        return None

    def connection_closed(self, connection: Connection) -> None:
        """Remove a connection, upgraded or not."""
        self.pending_handshakes.remove(connection)
        peer = connection.peer
        connected = self._connected.get(peer)
        if connected is None or connection not in connected.connections:
            return
        connected.connections.remove(connection)
        seconds = asyncio.get_running_loop().time() - connection.opened_at
        self.closed_connections.append(ClosedConnection(peer, str(connection.drop), seconds))
        if not connected.connections:
            del self._connected[peer]
            self._work_shares.remove_peer(peer)
            self.connection_manager.preferred.discard(peer)
            log.debug("peer disconnected", peer=short_peer_id(peer), reason=str(connection.drop))
            self.emit(host_api.PeerDisconnected(peer))

    def charge_work(self, peer: PeerId, seconds: float) -> float:
        """Charge a peer with CPU time; returns the seconds for which its connection must not be read."""
        delay = self._work_shares.charge(peer, seconds, asyncio.get_running_loop().time())
        if peer and peer not in self._connected:
            self._work_shares.remove_peer(peer)
        return delay

    def add_held(self, stream: Stream, change: int) -> None:
        """Count bytes held for a stream; drops streams while too many are held for all peers."""
        self.held.add(stream, stream.peer, change)
        while (dropped := self.held.next_dropped()) is not None:
            held = self.held.peer_bytes(dropped.peer)
            dropped.drop(PeerDropReason.TOO_MUCH_HELD.text)
            self.meter.count("p2p_streams_dropped_total", protocol=dropped.protocol or "none")
            log.debug("dropped stream", peer=short_peer_id(dropped.peer), protocol=dropped.protocol, peer_bytes=held)
            self._warn_of_drops()

    def _warn_of_drops(self) -> None:
        """Warn once a minute at most: each line is caused by a peer."""
        self._drops_since_warning += 1
        now = asyncio.get_running_loop().time()
        if now - self._drop_warned_at >= _DROP_WARNING_INTERVAL:
            limit, streams = self.limits.held_bytes, self._drops_since_warning
            text = "dropped streams of peers that hold more than their share"
            log.warn(text, code=Code.PEER_STREAMS.text, streams=streams, limit=limit)
            self._drop_warned_at, self._drops_since_warning = now, 0

    def _all_connections(self) -> Iterator[Connection]:
        """All connections, during and after their handshake."""
        yield from self.pending_handshakes
        for connected in self._connected.values():
            yield from connected.connections

    def _limit_exceeded(self, connection: Connection) -> PeerDropReason | None:
        if len(self.connections_to_peer(connection.peer)) >= self.limits.connections_per_peer:
            return PeerDropReason.TOO_MANY_OF_PEER
        maximum = self.limits.max_connections(self.config.peers_hi)
        # What we dial, and protected peers, get in beyond the maximum: strangers must not keep static peers out.
        is_exempt = connection.direction is host_api.Direction.OUTBOUND or self.connection_manager.is_protected(
            connection.peer
        )
        if not is_exempt and sum(len(item.connections) for item in self._connected.values()) >= maximum:
            return PeerDropReason.TOO_MANY_CONNECTIONS
        return None

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.crash("host task failed", error)
