"""Collects the diagnosis for `rollup-node p2p doctor`."""

import time
from collections import Counter
from collections.abc import Callable, Iterable

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import Direction, HostEvent, PeerConnected
from rollup_node.stages.p2p.identity.peer_id import PeerId, peer_id_text
from rollup_node.stages.p2p.peering import peer_info
from rollup_node.stages.p2p.peering.io.discv5_server import Discv5Server
from rollup_node.stages.p2p.process.gossip_service import GossipService

MAX_SHOWN = 32


class DiagnosisService:
    """Collects diagnoses. `discv5` returns the discovery server while it runs."""

    def __init__(self, host: Host, gossip: GossipService, discv5: Callable[[], Discv5Server | None]) -> None:
        self._host, self._gossip, self._discv5 = host, gossip, discv5
        self._inbound_ever = 0
        host.subscribe(self._on_host_event)

    def diagnose(
        self,
        problems: tuple[str, ...],
        static: Iterable[PeerId],
        signers: tuple[bytes | None, bytes | None],
        published: int,
    ) -> peer_info.Diagnosis:
        """Return the present state; `signers` are the unsafe block signers on L1 and of our key."""
        host, now = self._host, time.time()
        gater = host.connection_gater
        connected = host.connections()
        observed = Counter(
            str(info.identify.observed_address)
            for info in connected
            if info.identify is not None and info.identify.observed_address is not None
        )
        return peer_info.Diagnosis(
            peer=peer_id_text(host.peer_id),
            chain_id=host.config.rollup.l2_chain_id,
            listens=tuple(map(str, host.addresses)),
            is_listening=host.port != 0,
            low=host.config.peers_lo,
            high=host.config.peers_hi,
            inbound=sum(info.direction is Direction.INBOUND for info in connected),
            outbound=sum(info.direction is Direction.OUTBOUND for info in connected),
            inbound_ever=self._inbound_ever,
            observed=dict(observed.most_common(MAX_SHOWN)),
            known=len(host.peerstore.peers()),
            dialable=len(host.peerstore.peers_with_addresses()),
            static_missing=tuple(peer_id_text(peer) for peer in static if host.connection(peer) is None),
            dial_problems={
                peer_id_text(peer): text for peer, text in list(host.dialer.last_errors.items())[-MAX_SHOWN:]
            },
            bans={peer_id_text(peer): round(until - now, 1) for peer, until in gater.peer_bans.items()},
            blocked=len(gater.blocked_peers) + len(gater.blocked_ips) + len(gater.blocked_subnets),
            departed=tuple(
                peer_info.ClosedConnectionInfo(peer_id_text(closed.peer), closed.reason, round(closed.seconds, 1))
                for closed in list(host.closed_connections)[-MAX_SHOWN:]
            ),
            discovery=self._diagnose_discovery(),
            gossip=self._diagnose_gossip(signers, published),
            problems=problems,
        )

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerConnected) and event.direction is Direction.INBOUND:
            target = event.address.tcp
            self._inbound_ever += target is not None and not parse_ip(target.host).is_loopback

    def _diagnose_discovery(self) -> peer_info.DiscoveryDiagnosis | None:
        server = self._discv5()
        if server is None:
            return None
        advertised = server.node.local_enr.advertised
        return peer_info.DiscoveryDiagnosis(
            record=server.enr.text,
            endpoint=str(server.endpoint),
            ip=None if advertised.ip is None else str(advertised.ip),
            tcp=advertised.tcp,
            udp=advertised.udp,
            nodes=server.node.table_stats()._asdict(),
            drops={drop.value: count for drop, count in server.node.drops.items()},
        )

    def _diagnose_gossip(self, signers: tuple[bytes | None, bytes | None], published: int) -> peer_info.GossipDiagnosis:
        gossip = self._gossip
        signer, own = [None if address is None else f"0x{address.hex()}" for address in signers]
        ago = None if gossip.accepted_at is None else round(time.monotonic() - gossip.accepted_at, 1)
        return peer_info.GossipDiagnosis(
            topic=gossip.topic(time.time()),
            topics={topic: len(gossip.router.peers.topic_peers(topic)) for topic in gossip.topics},
            meshes={topic: len(gossip.router.meshes.members.get(topic, ())) for topic in gossip.topics},
            low=gossip.router.params.d_lo,
            accepted=gossip.accepted,
            accepted_ago=ago,
            refused=dict(gossip.failures),
            published=published,
            signer=signer,
            own_signer=own,
        )
