"""P2P options of the nodes of a local network: loopback only, with the sequencers as static peers and bootnodes."""

from collections.abc import Mapping

from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, peer_id_text
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keys import private_key
from rollup_node.tools.devnet.files import SIGNER_KEY, NetworkFiles
from rollup_node.tools.devnet.ports import LOOPBACK

NETRESTRICT = "127.0.0.0/8"


def identity(files: NetworkFiles, name: str) -> NetworkIdentity:
    """The libp2p identity of a node, from its key file."""
    return NetworkIdentity(bytes.fromhex(files.peer_key(name).read_text().strip()))


def address(files: NetworkFiles, name: str, port: int) -> str:
    """The multiaddress of a node with its peer id."""
    return f"/ip4/{LOOPBACK}/tcp/{port}/p2p/{peer_id_text(identity(files, name).peer_id)}"


def bootnode(files: NetworkFiles, name: str, port: int) -> str:
    """The enode URL of a node."""
    point = private_key(identity(files, name).secret).public_key.to_bytes()
    return f"enode://{point.hex()}@{LOOPBACK}:{port}"


def peer_options(
    files: NetworkFiles, name: str, port: int, sequencer_ports: Mapping[str, int], signer: str | None = None
) -> dict[str, str]:
    """The P2P options of a node that listens on `port` by TCP and UDP. `sequencer_ports` are those of the sequencers;
    each dials those before it. `signer` is the URL of the signer, None where the sequencers have the key themselves."""
    options = {
        "p2p.listen.ip": LOOPBACK,
        "p2p.listen.tcp": str(port),
        "p2p.netrestrict": NETRESTRICT,
        "p2p.priv.path": str(files.peer_key(name)),
        "p2p.peerstore.path": str(files.peer_database(name)),
        "p2p.discovery.path": str(files.discovery_database(name)),
        "l1.runtime-config-reload-interval": "10s",
    }
    names = list(sequencer_ports)
    dialed = names[: names.index(name)] if name in names else names
    if dialed:
        options["p2p.static"] = ",".join(address(files, each, sequencer_ports[each]) for each in dialed)
        options["p2p.bootnodes"] = ",".join(bootnode(files, each, sequencer_ports[each]) for each in dialed)
    if name not in names:
        return options
    if signer is None:
        return options | {"p2p.sequencer.key": SIGNER_KEY.secret.hex()}
    return options | {
        "signer.endpoint": signer,
        "signer.address": to_hex(SIGNER_KEY.address),
        "signer.tls.enabled": "false",
    }
