"""What keeps the set of peers right: static peers are redialled, known ones are dialled while there are too few, the
surplus is let go, bans by score are pronounced and lifted, latencies measured (node-behaviour 13.1, 13.2, 13.9-13.12).
Each of these is an activity for the runtime."""

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.gating.backoff import Redial
from rollup_node.stages.p2p.gating.connection_manager import Candidate
from rollup_node.stages.p2p.host.host_api import DialError, Direction, HostEvent, PeerConnected, PeerDisconnected
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.identity.multiaddr import Multiaddr, MultiaddrError, parse_multiaddr
from rollup_node.stages.p2p.identity.peer_id import PeerId, peer_text, short_text
from rollup_node.stages.p2p.peerstore.io.peerstore import STATIC_TTL

STATIC = "static"
API_PROTECTED = "api-protected"
PING_INTERVAL = 180.0
SEEK_FAST, SEEK_SLOW = 5.0, 20.0
_SEEKERS = 4
_SEEK_ROUND = 30.0
_TRIM_INTERVAL = 10.0
_CLEAN_INTERVAL = 7200.0
_STATIC_LONGEST_PAUSE = 60.0
_SHORTEST_PAUSE = 0.05
_STEADY = 30.0
_PING_BURST = 10
_SEEK_LONGEST_PAUSE = 600.0

log = get_logger("p2p")


class StaticPeerError(Exception):
    """An entry of `p2p.static` that cannot be used."""


def static_peers(texts: Sequence[str], own: PeerId) -> dict[PeerId, list[Multiaddr]]:
    """The addresses of each static peer, without our own; StaticPeerError says which entry is wrong."""
    found: dict[PeerId, list[Multiaddr]] = {}
    for text in filter(None, map(str.strip, texts)):
        try:
            address = parse_multiaddr(text)
        except MultiaddrError as error:
            raise StaticPeerError(f"{error} (p2p.static)") from None
        if address.peer is None or address.tcp is None:
            raise StaticPeerError(
                f"{text} lacks address, TCP port or peer id, as in /ip4/192.0.2.1/tcp/9222/p2p/16Uiu2HA... (p2p.static)"
            )
        if address.peer != own:
            found.setdefault(address.peer, []).append(address.without_peer)
    return found


class Upkeep:
    """The activities of a host. A static peer is protected, exempt from bans, and dialled for good."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._static = static_peers(host.config.static, host.peer_id)
        self._static_redial = Redial(longest=_STATIC_LONGEST_PAUSE)
        self._seek_redial = Redial(first=SEEK_FAST, longest=_SEEK_LONGEST_PAUSE)
        self._since: dict[PeerId, float] = {}
        self._turn: list[PeerId] = []
        self._to_ping: list[PeerId] = []
        self._next_round = 0.0
        for peer, addresses in self._static.items():
            host.manager.protect(peer, STATIC)
            host.store.add_addresses(peer, addresses, STATIC_TTL)
        self._redialling = PeriodicTask("redial static peers", self._redial_static)
        self.periodic_tasks: tuple[PeriodicTask, ...] = (
            self._redialling,
            PeriodicTask("seek peers", self._seek),
            PeriodicTask("trim peers", self._trim),
            PeriodicTask("watch peers", self._watch),
            *((PeriodicTask("ping peers", self._ping),) if host.config.ping else ()),
            PeriodicTask("clean the peer store", self._clean),
        )
        host.on_event(self._heard)

    @property
    def static(self) -> tuple[PeerId, ...]:
        """The peers of `p2p.static`."""
        return tuple(self._static)

    def is_static(self, peer: PeerId) -> bool:
        """Whether a peer is one of `p2p.static`."""
        return peer in self._static

    def _heard(self, event: HostEvent) -> None:
        """A connection counts as a success once it has lasted a while: a peer that always hangs up is not hammered."""
        if isinstance(event, PeerConnected):
            self._since[event.peer] = time.monotonic()
        elif isinstance(event, PeerDisconnected):
            redial = self._static_redial if event.peer in self._static else self._seek_redial
            now = time.monotonic()
            if now - self._since.pop(event.peer, now) >= _STEADY:
                redial.succeeded(event.peer)
            else:
                redial.failed(event.peer, now)
            if event.peer in self._static:
                self._redialling.wake.set()

    async def _redial_static(self) -> float:
        """Dials the static peers that are missing and due, and sleeps until the next is due."""
        missing = [peer for peer in self._static if self._host.connection(peer) is None]
        now = time.monotonic()
        due = [peer for peer in missing if self._static_redial.due(peer) <= now]
        await asyncio.gather(*(self._dial_static(peer) for peer in due))
        missing = [peer for peer in self._static if self._host.connection(peer) is None]
        pauses = [self._static_redial.due(peer) - time.monotonic() for peer in missing]
        return max(_SHORTEST_PAUSE, min(pauses, default=_STATIC_LONGEST_PAUSE))

    async def _dial_static(self, peer: PeerId) -> None:
        addresses = self._static[peer]
        self._host.store.add_addresses(peer, addresses, STATIC_TTL)
        try:
            await self._host.connect(peer, addresses)
        except DialError as error:
            pause = self._static_redial.failed(peer, time.monotonic())
            log.warn("static peer not reached", peer=peer_text(peer), why=str(error), next_try_in=pause)

    async def _seek(self) -> float:
        """One round of dialling known peers, if there are too few. Those whose records discovery has seen come before
        those of hearsay, with which strangers may have filled the store."""
        if len(self._host.peers()) >= self._host.config.peers_lo:
            return SEEK_SLOW
        candidates = self._candidates()
        random.shuffle(candidates)
        candidates.sort(key=lambda peer: self._host.store.metadata(peer) is not None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEEK_ROUND):
                await asyncio.gather(*(self._seek_among(candidates) for _ in range(_SEEKERS)))
        return SEEK_FAST

    def _candidates(self) -> list[PeerId]:
        host, now = self._host, time.monotonic()
        return [
            peer
            for peer in host.store.dialable()
            if host.connection(peer) is None
            and peer not in self._static
            and self._seek_redial.due(peer) <= now
            and host.refuses_peer(peer) is None
            and self._is_of_our_chain(peer)
        ]

    def _is_of_our_chain(self, peer: PeerId) -> bool:
        metadata = self._host.store.metadata(peer)
        return metadata is None or metadata.chain_id in (0, self._host.config.rollup.l2_chain_id)

    async def _seek_among(self, candidates: list[PeerId]) -> None:
        """One of the workers that share the candidates."""
        while candidates and len(self._host.peers()) < self._host.config.peers_lo:
            peer = candidates.pop()
            try:
                async with asyncio.timeout(self._host.config.dial_timeout):
                    await self._host.connect(peer)
            except (DialError, TimeoutError) as error:
                self._seek_redial.failed(peer, time.monotonic())
                log.debug("peer not reached", peer=short_text(peer), why=str(error) or "no connection in time")

    async def _trim(self) -> float:
        """Lets the surplus go."""
        connected = [
            Candidate(info.peer, info.since, info.direction is Direction.INBOUND, info.streams)
            for info in self._host.connections()
        ]
        for peer in self._host.manager.surplus(connected, time.monotonic()):
            self._host.disconnect(peer, "too many peers")
        return _TRIM_INTERVAL

    async def _watch(self) -> float:
        """Lifts bans that are over, judges one peer after the other, and counts."""
        host = self._host
        peers, ips = host.gater.expired(time.time())
        if peers or ips:
            host.gate_changed()
            host.meter.count("p2p_peer_unbans", len(peers))
            host.meter.count("p2p_ip_unbans", len(ips))
        self._turn = self._turn or host.peers()
        if self._turn:
            self._judge(self._turn.pop())
        self._count()
        return 1.0

    def _judge(self, peer: PeerId) -> None:
        host, config = self._host, self._host.config
        if not config.ban_peers or peer in self._static or host.connection(peer) is None:
            return
        scores = host.store.scores(peer)
        if scores is not None and scores.gossip.total < config.ban_threshold:
            host.ban(peer, config.ban_duration, f"score {scores.gossip.total:.1f} is below {config.ban_threshold:g}")

    def _count(self) -> None:
        host = self._host
        connections = host.connections()
        host.meter.set("p2p_peer_count", len(connections))
        host.meter.set("p2p_stream_count", sum(info.streams for info in connections))
        host.meter.set("p2p_bandwidth_bytes_total", host.bytes_in, direction="in")
        host.meter.set("p2p_bandwidth_bytes_total", host.bytes_out, direction="out")

    async def _ping(self) -> float:
        """Every three minutes all peers, the first ten at once and then one a second."""
        now = time.monotonic()
        if not self._to_ping and now >= self._next_round:
            self._to_ping, self._next_round = self._host.peers(), now + PING_INTERVAL
            burst = _PING_BURST
        else:
            burst = 1
        for peer in self._to_ping[:burst]:
            self._host.spawn(self._host.ping.measure(peer))
        del self._to_ping[:burst]
        return 1.0

    async def _clean(self) -> float:
        self._host.store.clean()
        return _CLEAN_INTERVAL
