"""Databases that cannot be used end the start."""

from pathlib import Path

import pytest

from rollup_node.node.setup.networks import find_network
from rollup_node.node.setup.state_files import check_state_files
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.peerstore.io.peerstore import PeerStore
from tests.node.setup.planning import prepare

ROLLUP = find_network("op-sepolia").config


def test_missing_databases_are_created(working_directory: Path) -> None:
    prepare()
    names = {path.name for path in working_directory.iterdir()}
    assert {"node_peerstore_db", "node_discovery_db"} <= names


def test_without_discovery_there_is_no_discovery_database(working_directory: Path) -> None:
    check_state_files(P2pConfig(ROLLUP, discovery_path="discovery", peerstore_path="peers", no_discovery=True))
    assert not list(working_directory.glob("discovery*")) and list(working_directory.glob("peers*"))


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (P2pConfig(ROLLUP, peerstore_path="bad.txt"), "bad.txt is not a peer store: give another path"),
        (P2pConfig(ROLLUP, discovery_path="bad.txt"), "bad.txt is not a database of nodes"),
    ],
)
def test_a_damaged_database_is_named(working_directory: Path, config: P2pConfig, error: str) -> None:
    (working_directory / "bad.txt").write_text("not what it should be, and long enough to be looked at" * 4)
    with pytest.raises(SetupError, match=error):
        check_state_files(config)


def test_the_peerstore_of_another_node_is_named() -> None:
    config = P2pConfig(ROLLUP, peerstore_path="node_peerstore_db")
    store = PeerStore("node_peerstore_db")
    try:
        with pytest.raises(SetupError, match="peer store node_peerstore_db is in use by another node"):
            check_state_files(config)
    finally:
        store.close()
    check_state_files(config)
