"""What the p2p process is told, and what is refused before anything starts."""

import socket
from pathlib import Path

import orjson
import pytest

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.networks import find_network
from rollup_node.node.setup.p2p import plan_peers
from rollup_node.node.setup.plan import NodePlan, plan_node
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, peer_id_text
from rollup_node.stages.p2p.peerstore.io.peerstore import PeerStore
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.rpc.config import RpcConfig

PEER = peer_id_text(NetworkIdentity(b"\x05" * 32).peer_id)
SIGNER = "11" * 32
GENERATOR = (
    "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"
)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node_jwt.txt").write_text("11" * 32)
    return tmp_path


def plan(*words: str, chain: tuple[str, ...] = ("--network=op-sepolia",)) -> NodePlan:
    needed = (*chain, "--l2=http://e:8551", "--l1.beacon=http://b:5052")
    return plan_node(parse_options([*needed, *words], {}).values)


def config(*words: str, chain: tuple[str, ...] = ("--network=op-sepolia",)) -> P2pConfig:
    found = next(row.config for row in plan(*words, chain=chain).rows if row.role == "p2p")
    assert isinstance(found, P2pConfig)
    return found


def with_file(folder: Path) -> tuple[str, ...]:
    """The same chain by its rollup.json."""
    path = folder / "rollup.json"
    path.write_bytes(orjson.dumps(rollup_config_object(find_network("op-sepolia").config)))
    return (f"--rollup.config={path}",)


def test_a_node_with_a_rollup_config_has_no_public_bootnode(in_a_folder: Path) -> None:
    assert len(config().bootnodes) >= 10, "a built-in network has those built in"
    file = with_file(in_a_folder)
    assert config(chain=file).bootnodes == ()
    assert config(chain=(*file, "--network=op-sepolia")).bootnodes == ()
    given = f"enode://{GENERATOR}@127.0.0.1:9"
    assert config(f"--p2p.bootnodes={given}", chain=file).bootnodes == (given,)
    assert config(f"--p2p.bootnodes={given}").bootnodes == (given,)


def test_the_options_reach_the_process(in_a_folder: Path) -> None:
    found = config(
        "--p2p.listen.ip=127.0.0.1",
        "--p2p.listen.tcp=9999",
        "--p2p.netrestrict=10.0.0.0/8,127.0.0.0/8",
        f"--p2p.static=/ip4/10.0.0.1/tcp/9222/p2p/{PEER}",
        f"--p2p.sequencer.key={SIGNER}",
        "--p2p.ban.threshold=-50",
        "--p2p.ban.duration=10m",
        "--p2p.peers.grace=1m",
        "--p2p.scoring=none",
        "--p2p.gossip.mesh.dhi=20",
        "--p2p.sync.onlyreqtostatic",
        "--p2p.peerstore.path=memory",
        "--p2p.discovery.path=memory",
        "--p2p.no-discovery",
        "--p2p.advertise.ip=10.9.9.9",
    )
    assert (found.listen_ip, found.listen_tcp, found.netrestrict) == ("127.0.0.1", 9999, ("10.0.0.0/8", "127.0.0.0/8"))
    assert found.static == (f"/ip4/10.0.0.1/tcp/9222/p2p/{PEER}",) and found.sequencer_key == bytes.fromhex(SIGNER)
    assert (found.ban_threshold, found.ban_duration, found.peers_grace) == (-50.0, 600.0, 60.0)
    assert (found.scoring, found.mesh_hi, found.sync_only_req_to_static) == ("none", 20, True)
    assert found.no_discovery and found.advertise_ip == "10.9.9.9"
    assert not list(in_a_folder.glob("*_db*")), "nothing on disk"


def test_the_network_key_is_made_once_and_kept(in_a_folder: Path) -> None:
    first = plan()
    assert any("made a new network key in node_p2p_priv.txt" in notice.text for notice in first.notices)
    key = (in_a_folder / "node_p2p_priv.txt").read_text().strip()
    assert (in_a_folder / "node_p2p_priv.txt").stat().st_mode & 0o777 == 0o600
    second = plan()
    assert not any("network key" in notice.text for notice in second.notices)
    assert config().priv_raw == bytes.fromhex(key)
    assert config(f"--p2p.priv.raw={'12' * 32}").priv_raw == b"\x12" * 32


def test_all_processes_know_whether_there_are_peers() -> None:
    for words, there in (((), True), (("--p2p.disable",), False)):
        configs = {row.role: row.config for row in plan(*words).rows}
        l1, engine, rpc = configs["l1"], configs["engine"], configs["rpc"]
        assert isinstance(l1, L1Config) and isinstance(engine, EngineConfig) and isinstance(rpc, RpcConfig)
        assert (l1.runtime_config, engine.p2p, rpc.p2p, "p2p" in configs) == (there,) * 4
    configs = {row.role: row.config for row in plan("--p2p.sync.req-resp=false").rows}
    assert isinstance(configs["engine"], EngineConfig) and not configs["engine"].fill_gaps
    configs = {row.role: row.config for row in plan("--l1.runtime-config-reload-interval=30s").rows}
    assert isinstance(configs["l1"], L1Config) and configs["l1"].runtime_config_interval == 30.0


def test_a_sequencer_without_a_key_is_warned() -> None:
    text = "blocks are sequenced but not gossiped: there is no p2p.sequencer.key"
    assert text in [notice.text for notice in plan("--sequencer.enabled").notices]
    with_key = plan("--sequencer.enabled", f"--p2p.sequencer.key={SIGNER}")
    assert text not in [notice.text for notice in with_key.notices]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--p2p.static=/ip4/10.0.0.1/tcp/9222",), "lacks address, TCP port or peer id"),
        (("--p2p.static=somewhere",), "p2p.static"),
        (("--p2p.bootnodes=enr:-nonsense",), "p2p.bootnodes"),
        (("--p2p.bootnodes=enode://12@1.2.3.4:1",), "p2p.bootnodes"),
        ((f"--p2p.sequencer.key={'ff' * 32}",), "p2p.sequencer.key is not a private key of secp256k1"),
        ((f"--p2p.priv.raw={'ff' * 32}",), "p2p.priv.raw: the private key is not a number"),
        (("--p2p.priv.path=bad.txt",), "network key file bad.txt is malformed"),
        (("--p2p.priv.path=folder",), "network key file folder"),
        (("--p2p.peerstore.path=bad.txt",), "bad.txt is not a peer store: give another path (p2p.peerstore.path)"),
        (("--p2p.discovery.path=bad.txt",), "bad.txt is not a database of nodes"),
        (("--p2p.security=tls",), "peers are spoken to by noise only"),
        (("--p2p.mux=mplex",), "streams are multiplexed by yamux only"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(in_a_folder: Path, words: tuple[str, ...], told: str) -> None:
    (in_a_folder / "bad.txt").write_text("not what it should be, and long enough to be looked at" * 4)
    (in_a_folder / "folder").mkdir()
    with pytest.raises(SetupError) as caught:
        plan(*words)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_peer_store_of_another_node_is_told(in_a_folder: Path) -> None:
    store = PeerStore("node_peerstore_db")
    try:
        with pytest.raises(SetupError, match="peer store node_peerstore_db is in use by another node"):
            plan()
    finally:
        store.close()
    plan()


def test_planning_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    values = parse_options(["--network=op-sepolia", "--l2=http://e:1"], {}).values
    chain = choose_chain(
        parse_options(["--network=op-sepolia", "--l2=http://e:1", "--l1.beacon=http://b"], {}).values, print, print
    )
    assert plan_peers(values, chain).config.listen_tcp == 9222
