"""What the p2p process is told: the options `p2p.*`, the network key, and files that can be opened."""

from typing import NamedTuple

import msgspec

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.rules import peer_scoring
from rollup_node.node.options.values import Values
from rollup_node.node.setup.chain import ChosenChain
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.p2p.config import P2pConfig, PeerScoring
from rollup_node.stages.p2p.discv5.bootnodes import choose_bootnodes
from rollup_node.stages.p2p.discv5.enode import parse_bootnode
from rollup_node.stages.p2p.discv5.io.node_database import NodeDatabase
from rollup_node.stages.p2p.identity.io.key_file import IdentityFileError, load_identity
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity
from rollup_node.stages.p2p.peering.io.peer_manager import StaticPeerError, parse_static_peers
from rollup_node.stages.p2p.peerstore.io.peerstore import PeerStore
from rollup_node.stages.p2p.storage.io.database import StoreError


class Peering(NamedTuple):
    """The config of the p2p process, with the network key in it, and the file of a key that is new."""

    config: P2pConfig
    new_key: str | None


def plan_peers(values: Values, chain: ChosenChain) -> Peering:
    """Reads the options and files; OptionError or SetupError for what cannot be used. Makes missing files."""
    config = _config(values, chain)
    _check_texts(config)
    try:
        loaded = load_identity(config)
        parse_static_peers(config.static, loaded.identity.peer_id)
        PeerStore(config.peerstore_path).close()
        if not config.no_discovery:
            NodeDatabase(config.discovery_path).close()
    except (IdentityFileError, StaticPeerError, StoreError) as error:
        raise SetupError(str(error)) from None
    return Peering(_with_key(config, loaded.identity), config.priv_path if loaded.is_new else None)


def _with_key(config: P2pConfig, identity: NetworkIdentity) -> P2pConfig:
    """The p2p process is given the key, so that a file that changes or goes away does not change who the node is."""
    return msgspec.structs.replace(config, priv_raw=identity.secret)


def _check_texts(config: P2pConfig) -> None:
    for text in config.bootnodes:
        try:
            parse_bootnode(text)
        except ValueError as error:
            raise OptionError(str(error)) from None
    if config.sequencer_key is not None:
        try:
            LocalSigner(config.sequencer_key)
        except ValueError:
            raise OptionError("p2p.sequencer.key is not a private key of secp256k1") from None


def _config(values: Values, chain: ChosenChain) -> P2pConfig:
    bootnodes = choose_bootnodes(
        values["p2p.bootnodes"], network=values["network"], rollup_config=values["rollup.config"]
    )
    return P2pConfig(
        rollup=chain.config,
        priv_path=values["p2p.priv.path"],
        priv_raw=values["p2p.priv.raw"],
        peerstore_path=values["p2p.peerstore.path"],
        discovery_path=values["p2p.discovery.path"],
        listen_ip=values["p2p.listen.ip"],
        listen_tcp=values["p2p.listen.tcp"],
        listen_udp=values["p2p.listen.udp"],
        advertise_ip=values["p2p.advertise.ip"],
        advertise_tcp=values["p2p.advertise.tcp"],
        advertise_udp=values["p2p.advertise.udp"],
        nat=values["p2p.nat"],
        no_discovery=values["p2p.no-discovery"],
        bootnodes=bootnodes,
        netrestrict=values["p2p.netrestrict"],
        static=values["p2p.static"],
        user_agent=values["p2p.useragent"],
        ping=values["p2p.ping"],
        peers_lo=values["p2p.peers.lo"],
        peers_hi=values["p2p.peers.hi"],
        peers_grace=values["p2p.peers.grace"],
        ban_peers=values["p2p.ban.peers"],
        ban_threshold=values["p2p.ban.threshold"],
        ban_duration=values["p2p.ban.duration"],
        scoring=PeerScoring(peer_scoring(values)),
        sequencer_key=values["p2p.sequencer.key"],
        gossip_timestamp_threshold=values["p2p.gossip.timestamp.threshold"],
        mesh_d=values["p2p.gossip.mesh.d"],
        mesh_lo=values["p2p.gossip.mesh.lo"],
        mesh_hi=values["p2p.gossip.mesh.dhi"],
        mesh_lazy=values["p2p.gossip.mesh.dlazy"],
        flood_publish=values["p2p.gossip.mesh.floodpublish"],
        sync_req_resp=values["p2p.sync.req-resp"],
        sync_only_req_to_static=values["p2p.sync.onlyreqtostatic"],
        dial_timeout=values["p2p.timeout.dial"],
    )
