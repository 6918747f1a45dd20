"""Which peer-to-peer options and keys are rejected before anything starts."""

from pathlib import Path

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.setup.networks import find_network
from rollup_node.node.setup.p2p import load_network_key
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.p2p.config import P2pConfig, SignerConfig
from tests.node.options.test_values import write_tls_files
from tests.node.setup.planning import prepare

ROLLUP = find_network("op-sepolia").config


@pytest.mark.option("p2p.mux", "p2p.security")
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
        (("--p2p.priv.path=folder",), "folder: Is a directory: give a path that this node may write (p2p.priv.path)"),
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


@pytest.mark.option("p2p.sequencer.key.path")
def test_the_key_of_a_sequencer_is_read_from_its_file(working_directory: Path) -> None:
    """[OPT89]"""
    file = working_directory / "key.txt"
    file.write_text(f"0x{'2b' * 32}\n")
    node = prepare("--p2p.sequencer.key.path=key.txt")
    assert node.configs.p2p is not None and node.configs.p2p.sequencer_key == b"\x2b" * 32
    for content, reason in (("", "expected a private key"), ("hunter2", "expected a private key")):
        file.write_text(content)
        with pytest.raises(OptionError, match=f'key file "key.txt": {reason}') as caught:
            prepare("--p2p.sequencer.key.path=key.txt")
        assert "hunter2" not in str(caught.value)
    with pytest.raises(OptionError, match="No such file or directory"):
        prepare("--p2p.sequencer.key.path=none.txt")
    file.chmod(0o666)
    with pytest.raises(OptionError, match="others may write to it"):
        prepare("--p2p.sequencer.key.path=key.txt")
    with pytest.raises(OptionError, match="cannot specify both a private key and its file"):
        prepare("--p2p.sequencer.key.path=key.txt", f"--p2p.sequencer.key={'2b' * 32}")


SIGNER = ("--signer.endpoint=https://signer:8080", f"--signer.address=0x{20 * '11'}")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--signer.endpoint=signer", SIGNER[1]), "expected an address such as http://127.0.0.1:8545"),
        ((SIGNER[0], "--signer.address=0x1"), "expected an address: 20 bytes in hex"),
        ((*SIGNER, "--signer.header=a b=c"), "signer.header must have the form key=value"),
        ((*SIGNER, "--signer.tls.ca=none"), "cannot read signer.tls.ca none (No such file or directory): give a"),
        ((*SIGNER, "--signer.tls.cert=none"), "cannot read signer.tls.cert none (No such file or directory)"),
        ((*SIGNER, "--signer.tls.key=none"), "cannot read signer.tls.key none (No such file or directory)"),
        ((*SIGNER, "--signer.tls.key=tls/ca.crt"), "signer.tls.key tls/ca.crt are no certificate with its unencrypted"),
    ],
)
def test_a_wrong_option_of_the_signer_is_one_line(working_directory: Path, words: tuple[str, ...], error: str) -> None:
    write_tls_files(working_directory)
    with pytest.raises(SetupError) as caught:
        prepare(*words)
    assert error in str(caught.value) and "\n" not in str(caught.value)
    assert not (working_directory / "node_p2p_priv.txt").exists()


@pytest.mark.option("signer.address", "signer.endpoint")
def test_the_signer_reaches_the_configuration(working_directory: Path) -> None:
    write_tls_files(working_directory)
    node = prepare(*SIGNER, "--signer.header=X-Key=a=b,c", "--signer.header=X-Other=")
    assert node.configs.p2p is not None
    address = b"\x11" * 20
    headers = (("X-Key", "a=b,c"), ("X-Other", ""))
    assert node.configs.p2p.signer == SignerConfig("https://signer:8080", address, headers)
    assert (working_directory / "node_peerstore_db_signed_blocks").exists()
    node = prepare("--signer.endpoint=http://s", SIGNER[1], "--signer.tls.enabled=false", "--signer.tls.ca=none")
    assert node.configs.p2p is not None and node.configs.p2p.signer is not None
    assert not node.configs.p2p.signer.tls_enabled
    unsigned = prepare("--signer.endpoint=").configs.p2p
    assert unsigned is not None and unsigned.signer is None


def test_the_network_key_is_created_once(working_directory: Path) -> None:
    config = P2pConfig(ROLLUP, priv_path="key.txt")
    first, second = load_network_key(config), load_network_key(config)
    assert first.secret == second.secret
    file = working_directory / "key.txt"
    assert file.read_text().strip() == first.secret.hex() and file.stat().st_mode & 0o777 == 0o600
    raw = load_network_key(P2pConfig(ROLLUP, priv_path="key.txt", priv_raw=b"\x12" * 32))
    assert raw.secret == b"\x12" * 32
