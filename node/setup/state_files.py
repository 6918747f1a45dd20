"""The databases of a node: opened once before the start, so that an unusable one ends it with a clear error."""

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.discv5.io.node_database import NodeDatabase
from rollup_node.stages.p2p.peerstore.io.peerstore import PeerStore
from rollup_node.stages.p2p.storage.io.database import StoreError


def check_state_files(config: P2pConfig) -> None:
    """Opens and closes the peerstore and the discovery database; creates those that are missing.

    Raises SetupError when one is damaged, belongs to another node, or cannot be created."""
    try:
        PeerStore(config.peerstore_path).close()
        if not config.no_discovery:
            NodeDatabase(config.discovery_path).close()
    except StoreError as error:
        raise SetupError(str(error)) from None
