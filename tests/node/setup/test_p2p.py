"""Which peer-to-peer options and keys are rejected before anything starts."""

from pathlib import Path

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup.networks import find_network
from rollup_node.node.setup.p2p import check_p2p_config, load_network_key
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.p2p.config import P2pConfig
from tests.node.setup.planning import prepare

ROLLUP = find_network("op-sepolia").config


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--p2p.static=/ip4/10.0.0.1/tcp/9222",), "lacks address, TCP port or peer id"),
        (("--p2p.static=somewhere",), "p2p.static"),
        (("--p2p.bootnodes=enr:-nonsense",), "p2p.bootnodes"),
        (("--p2p.bootnodes=enode://12@1.2.3.4:1",), "p2p.bootnodes"),
        ((f"--p2p.sequencer.key={'ff' * 32}",), "p2p.sequencer.key is not a private key of secp256k1"),
        ((f"--p2p.priv.raw={'ff' * 32}",), "p2p.priv.raw: the private key is not a number"),
        (("--p2p.priv.path=bad.txt",), "network key file bad.txt is malformed"),
        (("--p2p.priv.path=folder",), "network key file folder"),
        (("--p2p.security=tls",), "the only security protocol is noise"),
        (("--p2p.mux=mplex",), "the only stream multiplexer is yamux"),
    ],
)
def test_an_invalid_option_or_file_is_one_line(working_directory: Path, words: tuple[str, ...], error: str) -> None:
    (working_directory / "bad.txt").write_text("not what it should be, and long enough to be looked at" * 4)
    (working_directory / "folder").mkdir()
    with pytest.raises(SetupError) as caught:
        prepare(*words)
    assert error in str(caught.value) and "\n" not in str(caught.value)


def test_bootnodes_and_the_sequencer_key_are_checked_without_files(working_directory: Path) -> None:
    check_p2p_config(P2pConfig(ROLLUP))
    with pytest.raises(OptionError, match=r"p2p\.bootnodes"):
        check_p2p_config(P2pConfig(ROLLUP, bootnodes=("enr:-nonsense",)))
    assert [path.name for path in working_directory.iterdir()] == ["node_jwt.txt"]


def test_the_network_key_is_created_once(working_directory: Path) -> None:
    config = P2pConfig(ROLLUP, priv_path="key.txt")
    first, second = load_network_key(config), load_network_key(config)
    assert (first.is_new, second.is_new) == (True, False) and first.secret == second.secret
    file = working_directory / "key.txt"
    assert file.read_text().strip() == first.secret.hex() and file.stat().st_mode & 0o777 == 0o600
    assert load_network_key(P2pConfig(ROLLUP, priv_path="key.txt", priv_raw=b"\x12" * 32)).secret == b"\x12" * 32
