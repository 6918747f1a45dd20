"""The host: listens, keeps the connections to all peers, hands their streams to services, and tells of peers that come
and go (node-behaviour 13.1). Everything runs in one event loop."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.p2p.addresses.ip import colocation_groups, parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.gating.accept_limits import PendingHandshakes, is_over_host_limit
from rollup_node.stages.p2p.gating.connection_gater import ConnectionGater
from rollup_node.stages.p2p.gating.connection_manager import ConnectionManager
from rollup_node.stages.p2p.host.io.connection import Connection, ConnectionTimeouts, TransportError
from rollup_node.stages.p2p.host.io.dialer import Dialer
from rollup_node.stages.p2p.host.io.host_api import (
    ConnectionInfo,
    Direction,
    HostEvent,
    PeerConnected,
    PeerDisconnected,
    Stream,
    StreamError,
    StreamHandler,
)
from rollup_node.stages.p2p.host.io.identify_service import IdentifyService
from rollup_node.stages.p2p.host.io.ping_service import PingService
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, PeerId, peer_id_text, short_peer_id
from rollup_node.stages.p2p.peerstore.io.peerstore import DISCOVERED_TTL, PeerStore

_BACKLOG = 256
_STOP_SECONDS = 1.5
_MAX_CLOSED_CONNECTIONS = 256

log = get_logger("p2p")


class ClosedConnection(NamedTuple):
    """A connection that ended: why, in our words, and after how many seconds."""

    peer: PeerId
    reason: str
    seconds: float


class Host:
    """See hosting.HostApi. `gater` and `manager` are open to operators' commands; call `gate_changed` after changing
    the former. `external` is how others reach us, where that is known; `departures` and `dialer.problems` tell what
    happened of late."""

    def __init__(self, config: P2pConfig, identity: NetworkIdentity, store: PeerStore, meter: Meter) -> None:
        self.config = config
        self.identity = identity
        self.peerstore = store
        self.meter = meter
        self.limits = config.limits
        self.timings = ConnectionTimeouts(config.handshake_timeout, config.idle_timeout)
        self.early_muxer_negotiation = config.early_muxer
        self.connection_gater: ConnectionGater = store.load_gater([parse_subnet(text) for text in config.netrestrict])
        self.connection_manager = ConnectionManager(config.peers_lo, config.peers_hi, config.peers_grace)
        self.external_address: Multiaddr | None = None
        self.closed_connections: deque[ClosedConnection] = deque(maxlen=_MAX_CLOSED_CONNECTIONS)
        self.bytes_in = self.bytes_out = 0
        self.port = 0
        self.identify = IdentifyService(self)
        self.ping = PingService(self)
        self._connections: dict[PeerId, list[Connection]] = {}
        self.pending_handshakes: PendingHandshakes[Connection] = PendingHandshakes(config.limits.half_open)
        self._handlers: dict[str, StreamHandler] = {}
        self._listeners: list[Callable[[HostEvent], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.dialer = Dialer(self)
        self.identify.register()
        self.ping.register()

    async def start(self) -> None:
        """Begins to listen; TransportError says why it cannot."""
        ip, port = self.config.listen_ip, self.config.listen_tcp
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self, Direction.INBOUND), ip, port, backlog=_BACKLOG
            )
        except OSError as error:
            raise TransportError(
                f"cannot listen for peers on {ip}:{port}: {error.strerror} (p2p.listen.ip, p2p.listen.tcp)"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("listening for peers", address=self.addresses[0], peer=peer_id_text(self.peer_id))

    async def stop(self) -> None:
        """Closes everything, within two seconds."""
        if self._server is not None:
            self._server.close()
        for connections in list(self._connections.values()):
            for connection in list(connections):
                connection.close("we are stopping")
        for half_open in self.pending_handshakes.drain():
            half_open.abort("we are stopping")
        self.dialer.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        await asyncio.sleep(0)

    # --- hosting.HostApi

    @property
    def peer_id(self) -> PeerId:
        """Our own."""
        return self.identity.peer_id

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Where we listen and are reached, without our peer id."""
        listening = tcp_multiaddr(self.config.listen_ip, self.port)
        return (listening,) if self.external_address in (None, listening) else (self.external_address, listening)

    @property
    def protocols(self) -> tuple[str, ...]:
        """What we serve."""
        return tuple(self._handlers)

    def set_stream_handler(self, protocol: str, handler: StreamHandler) -> None:
        """Serves inbound streams of a protocol."""
        self._handlers[protocol] = handler
        self.identify.protocols_changed()

    def remove_stream_handler(self, protocol: str) -> None:
        """Serves a protocol no longer."""
        self._handlers.pop(protocol, None)
        self.identify.protocols_changed()

    def subscribe(self, handler: Callable[[HostEvent], None]) -> None:
        """Adds a listener for connections."""
        self._listeners.append(handler)

    async def connect(self, peer: PeerId, addresses: Sequence[Multiaddr] = ()) -> None:
        """Makes sure of a connection; DialError says why there is none."""
        if peer not in self._connections:
            await self.dialer.dial(peer, addresses)

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> tuple[str, Stream]:
        """A stream to a connected peer for the first of the protocols that it speaks."""
        connections = self._connections.get(peer)
        if not connections:
            raise StreamError(f"{short_peer_id(peer)} is not connected")
        stream = await connections[0].open_stream(tuple(protocols))
        return stream.protocol, stream

    def connections(self) -> list[ConnectionInfo]:
        """All connected peers."""
        return [self._info(peer, connections) for peer, connections in self._connections.items()]

    def connection(self, peer: PeerId) -> ConnectionInfo | None:
        """A connected peer; None if it is not."""
        connections = self._connections.get(peer)
        return self._info(peer, connections) if connections else None

    def disconnect(self, peer: PeerId, reason: str) -> None:
        """Closes all connections to the peer."""
        for connection in list(self._connections.get(peer, ())):
            connection.close(reason)

    # --- whom to keep out

    def save_gater(self) -> None:
        """Writes blocks and bans to the store."""
        self.peerstore.save_gater(self.connection_gater)

    def ban(self, peer: PeerId, seconds: float, reason: str) -> None:
        """Bans a peer for a time and closes its connections."""
        self.connection_gater.peer_bans[peer] = time.time() + seconds
        self.save_gater()
        log.info("peer banned", peer=short_peer_id(peer), seconds=seconds, why=reason)
        self.disconnect(peer, f"banned: {reason}")

    def intercept_addr_dial(self, ip: str) -> str | None:
        """Why an address may not be dialled."""
        refusal = self.connection_gater.ip_deny_reason(parse_ip(ip), time.time())
        self.meter.count("p2p_dials", allow=_metric_label(refusal is None))
        return refusal

    def intercept_peer(self, peer: PeerId) -> str | None:
        """Why there may be no connection with a peer."""
        if peer == self.peer_id:
            return "that is this node itself"
        return self.connection_gater.peer_deny_reason(peer, time.time())

    # --- transport.Owner

    def intercept_accept(self, connection: Connection) -> str | None:
        """Admits an inbound connection to its handshake, or says why not; an outbound one was judged before."""
        if connection.direction is Direction.OUTBOUND:
            return None
        refusal = self.connection_gater.ip_deny_reason(parse_ip(connection.remote_ip), time.time())
        if refusal is None and is_over_host_limit(
            connection.remote_ip, [other.remote_ip for other in self._all_connections()]
        ):
            refusal = "too many connections of one host"
        self.meter.count("p2p_accepts", allow=_metric_label(refusal is None))
        if refusal is None:
            evicted = self.pending_handshakes.add(connection, colocation_groups(connection.remote_ip)[-1])
            if evicted is not None:
                evicted.abort("too many unfinished handshakes")
        return refusal

    def connection_upgraded(self, connection: Connection) -> str | None:
        """Takes a connection among those of its peer, or says why not."""
        self.pending_handshakes.remove(connection)
        peer = connection.peer
        refusal = self.intercept_peer(peer) or self._limit_exceeded(connection)
        if refusal is not None:
            log.debug("connection refused", peer=short_peer_id(peer), address=connection.remote_address, why=refusal)
            return refusal
        connections = self._connections.setdefault(peer, [])
        connections.append(connection)
        address = connection.remote_address
        assert address is not None
        if connection.direction is Direction.OUTBOUND:
            self.peerstore.add_addresses(peer, [address], DISCOVERED_TTL)
        if len(connections) == 1:
            log.debug("peer connected", peer=short_peer_id(peer), address=address, direction=connection.direction.name)
            self.emit(PeerConnected(peer, connection.direction, address))
            self.spawn(self.identify.identify_peer(connection))
        return None

    def connection_closed(self, connection: Connection) -> None:
        """Forgets a connection."""
        self.pending_handshakes.remove(connection)
        connections = self._connections.get(connection.peer)
        if not connections or connection not in connections:
            return
        connections.remove(connection)
        lasted = asyncio.get_running_loop().time() - connection.opened_at
        self.closed_connections.append(ClosedConnection(connection.peer, connection.close_reason, lasted))
        if not connections:
            del self._connections[connection.peer]
            self.ping.remove_peer(connection.peer)
            self.identify.remove_peer(connection.peer)
            self.connection_manager.remove_tags(connection.peer)
            log.debug("peer disconnected", peer=short_peer_id(connection.peer), why=connection.close_reason)
            self.emit(PeerDisconnected(connection.peer))

    def stream_handler(self, protocol: str) -> StreamHandler | None:
        """Who serves a protocol."""
        return self._handlers.get(protocol)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a task until the host stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    # --- for the services of the host

    def emit(self, event: HostEvent) -> None:
        """Tells all listeners; one that fails does not keep it from the others."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception as error:
                log.crash("a listener for peers failed", error, event=type(event).__name__)

    def live(self, peer: PeerId) -> list[Connection]:
        """The connections of a peer, oldest first."""
        return self._connections.get(peer, [])

    def peers(self) -> list[PeerId]:
        """All connected peers."""
        return list(self._connections)

    def _all_connections(self) -> Iterator[Connection]:
        """Every connection there is, in its handshake or after it."""
        yield from self.pending_handshakes
        for connections in self._connections.values():
            yield from connections

    def _limit_exceeded(self, connection: Connection) -> str | None:
        if len(self._connections.get(connection.peer, ())) >= self.limits.connections_per_peer:
            return "too many connections of one peer"
        most = self.limits.most_connections(self.config.peers_hi)
        is_free = connection.direction is Direction.OUTBOUND or self.connection_manager.is_protected(connection.peer)
        if not is_free and sum(map(len, self._connections.values())) >= most:
            return "too many connections"
        return None

    def _info(self, peer: PeerId, connections: list[Connection]) -> ConnectionInfo:
        first = connections[0]
        assert first.remote_address is not None
        return ConnectionInfo(
            peer=peer,
            direction=first.direction,
            address=first.remote_address,
            opened_at=first.opened_at,
            streams=sum(len(connection.streams) for connection in connections),
            latency=self.ping.latency(peer),
            identify=self.identify.identified(peer),
        )

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.crash("a task of the host failed", error)


def _metric_label(allowed: bool) -> str:
    return "true" if allowed else "false"
