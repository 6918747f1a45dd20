"""How the nodes of a local network find each other: on the loopback interface alone, the sequencer being everybody's
static peer and the only bootnode."""

import coincurve

from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, peer_id_text
from rollup_node.tools.devnet.files import SIGNER_KEY, Places
from rollup_node.tools.devnet.ports import LOOPBACK
from rollup_node.tools.devnet.settings import SEQUENCER

NETWORKS = "127.0.0.0/8"


def identity(places: Places, name: str) -> NetworkIdentity:
    """Who a node is, by the key file that was written for it."""
    return NetworkIdentity(bytes.fromhex(places.peer_key(name).read_text().strip()))


def address(places: Places, name: str, port: int) -> str:
    """A node's multiaddress."""
    return f"/ip4/{LOOPBACK}/tcp/{port}/p2p/{peer_id_text(identity(places, name).peer_id)}"


def bootnode(places: Places, name: str, port: int) -> str:
    """A node's enode URL."""
    point = coincurve.PrivateKey(identity(places, name).secret).public_key.format(compressed=False)[1:]
    return f"enode://{point.hex()}@{LOOPBACK}:{port}"


def peer_options(places: Places, name: str, port: int, sequencer_port: int) -> dict[str, str]:
    """The options `p2p.*` of a node that listens on `port`, by TCP and UDP."""
    options = {
        "p2p.listen.ip": LOOPBACK,
        "p2p.listen.tcp": str(port),
        "p2p.netrestrict": NETWORKS,
        "p2p.priv.path": str(places.peer_key(name)),
        "p2p.peerstore.path": str(places.peer_database(name)),
        "p2p.discovery.path": str(places.discovery_database(name)),
        "l1.runtime-config-reload-interval": "10s",
    }
    if name == SEQUENCER:
        return options | {"p2p.sequencer.key": SIGNER_KEY.secret.hex()}
    return options | {
        "p2p.static": address(places, SEQUENCER, sequencer_port),
        "p2p.bootnodes": bootnode(places, SEQUENCER, sequencer_port),
    }
