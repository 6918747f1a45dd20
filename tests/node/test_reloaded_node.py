"""A sequencing node whose options file changes while it runs: each change acts, and no block is missing [LIF35]."""

import signal
import socket
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pytest

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, peer_id_text
from rollup_node.tools.devnet.files import SIGNER_KEY
from tests.support.chains.local_chain import LocalChain
from tests.support.p2p.discv5_servers import running_discv5
from tests.support.p2p.hosts import RecordingHost, running_host
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import RpcError, call, unready_reasons, wait_for
from tests.support.processes.reloaded_node import ReloadedNode
from tests.support.servers.loopback import free_port
from tests.support.servers.tcp_relay import LOOPBACK, TcpRelay
from tests.support.servers.threads import in_thread

PEER = peer_id_text(NetworkIdentity(bytes([1]) * 32).peer_id)


class Peers(NamedTuple):
    """The node, and what it says of the one peer, which it dials where it is told to; its score is 0."""

    node: ReloadedNode

    def take_over(self, options: dict[str, object]) -> None:
        """Reload these options, for which the p2p process restarts."""
        result = self.node.take_over(options)
        assert (set(result["changed"]), result["restarted"]) == (set(options), ["p2p"])

    @contextmanager
    def reloaded(self, options: dict[str, object]) -> Iterator[RecordingHost]:
        """Yield the peer, which comes again after the reload: its score is stored when it goes."""
        self.take_over(options)
        with in_thread(running_host(1)) as host:
            self.connect(host)
        wait_for(lambda: not self.is_connected, "the peer is gone")
        with in_thread(running_host(1)) as host:
            self.connect(host)
            yield host

    def call(self, method: str, *params: object) -> Any:
        return call(self.node.rpc, f"opp2p_{method}", *params)

    def connect(self, host: RecordingHost) -> None:
        def tried() -> bool:
            with suppress(RpcError):
                self.call("connectPeer", host.multiaddr)
            return self.is_connected

        wait_for(tried, "the peer is connected")

    @property
    def is_connected(self) -> bool:
        return bool(self.call("peers", True)["totalConnected"])

    @property
    def ban_seconds(self) -> float:
        """How long the ban of the peer still lasts, 0 without one."""
        return float(self.call("diagnosis")["bans"].get(PEER, 0.0))

    def stays(self) -> bool:
        """Whether the peer stays connected during three checks of its score, one each second."""
        for _ in range(14):
            if not self.is_connected:
                return False
            time.sleep(0.25)
        return True


OTHER_PEER = "16Uiu2HAmB2zwbdqFhKcK6XvdMRBQHcqqxvGwq1aGRdVVFzDbRCgd"


@pytest.fixture(scope="module")
def node(module_leftovers: Leftovers) -> Iterator[ReloadedNode]:
    with LocalChain(module_leftovers) as chain:
        words = ("--p2p.no-discovery=false", "--p2p.discovery.path=memory")
        node = ReloadedNode(chain, module_leftovers.folder, *words, p2p_netrestrict=["127.0.0.0/8"])
        with node.program, node.engine:
            node.program.wait_for_line(' processes are ready"')
            wait_for(lambda: not unready_reasons(node.rpc), "the node is ready")
            yield node


@pytest.fixture(autouse=True)
def no_block_is_late(node: ReloadedNode) -> Iterator[None]:
    """A sequencer that loses a block is late by one more."""
    wait_for(lambda: node.late_blocks < 2, "the sequencer keeps up")
    node.before = node.incarnations()
    yield
    if node.program.running:
        wait_for(lambda: node.late_blocks < 2, "the sequencer keeps up")
    assert "process died" not in node.program.out and "Traceback" not in node.program.out


def wait_unready(node: ReloadedNode, text: str) -> None:
    wait_for(lambda: any(text in reason for reason in unready_reasons(node.rpc)), f"not ready: {text}")


def test_the_level_of_the_log(node: ReloadedNode) -> None:
    assert "lvl=debug" not in node.program.out
    assert node.reload(log_level="debug") == {"changed": ["log.level"], "restarted": [], "needRestart": []}
    node.program.wait_for_line("lvl=debug process=engine")
    node.reload(log_level="info")


def test_the_endpoint_of_l1(node: ReloadedNode) -> None:
    with TcpRelay(node.chain.l1) as relay:
        assert node.reload(l1=relay.url)["restarted"] == ["l1"]
        relay.cut()
        wait_unready(node, relay.name)
        node.reload(l1=f"{relay.url},{node.chain.l1}")
        node.reload(l1=node.chain.l1)


def test_the_endpoint_of_the_beacon_node(node: ReloadedNode) -> None:
    with TcpRelay(node.chain.beacon) as relay:
        assert node.reload(l1_beacon=relay.url)["restarted"] == ["blobs"]
        node.program.wait_for_line(f'"fetching blobs" endpoints={relay.name}')
        node.reload(l1_beacon=node.chain.beacon)


def test_static_peers(node: ReloadedNode) -> None:
    """The dialled port is closed."""
    with socket.socket() as closed:
        closed.bind((LOOPBACK, 0))
        peer = f"/ip4/{LOOPBACK}/tcp/{closed.getsockname()[1]}/p2p/{OTHER_PEER}"
        assert node.reload(p2p_static=[peer])["restarted"] == ["p2p"]
        node.program.wait_for_line("cannot connect to static peer")
        node.reload(p2p_static=None)


def test_the_key_that_signs_blocks(node: ReloadedNode) -> None:
    node.key.write_text("1c" * 32)
    assert node.reload() == {"changed": [], "restarted": ["p2p"], "needRestart": []}
    node.program.wait_for_line("code=BLOCK-SIGNER")
    node.key.write_text(SIGNER_KEY.secret.hex())
    node.reload()
    said = node.program.out.count("code=BLOCK-SIGNER")
    result = node.reload(p2p_sequencer_key="1c" * 32, p2p_sequencer_key_path=None)
    assert set(result["changed"]) == {"p2p.sequencer.key", "p2p.sequencer.key.path"}
    wait_for(lambda: node.program.out.count("code=BLOCK-SIGNER") > said, "the other key is noticed")
    node.reload(p2p_sequencer_key=None, p2p_sequencer_key_path=str(node.key))


def test_the_thresholds_of_readiness(node: ReloadedNode) -> None:
    node.write(rpc_ready__unsafe__age="1ms")
    assert call(node.rpc, "admin_reload")["restarted"] == ["rpc"]
    wait_unready(node, "unsafe head")
    node.reload(rpc_ready__unsafe__age=None)


def test_the_token_of_the_admin_api(node: ReloadedNode) -> None:
    """The reload that switches it on is answered by the process that it restarts."""
    secret = node.file.with_name("admin.txt")
    secret.write_text("1b" * 32)
    node.reload(rpc_jwt__secret=str(secret))
    with pytest.raises((RpcError, urllib.error.HTTPError)):
        call(node.rpc, "admin_sequencerActive")
    node.write(rpc_jwt__secret=None)
    node.program.process.send_signal(signal.SIGHUP)
    wait_for(lambda: _answers(node.rpc), "the API needs no token")


def _answers(url: str) -> bool:
    with suppress(RpcError, urllib.error.HTTPError):
        return call(url, "admin_sequencerActive") is True
    return False


def test_a_secret_that_the_engine_does_not_accept_is_refused(node: ReloadedNode) -> None:
    right = node.chain.files.jwt.read_text()
    node.chain.files.jwt.write_text("1d" * 32)
    with pytest.raises(RpcError, match="the execution engine rejects our JWT"):
        node.reload()
    node.chain.files.jwt.write_text(right)
    assert node.reload()["restarted"] == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('"l1" = "{beacon}"', "misconfigured L1 Beacon API endpoint"),
        ('"l1" = "{beacon}"\n"l1.beacon" = "{beacon}"', "of --l1 is a beacon node"),
        ('"l1" = "http://127.0.0.1:1"\n"l1.beacon" = "{beacon}"', "L1 cannot be used"),
        ('"l1" = "{engine}"\n"l1.beacon" = "{beacon}"', "incorrect L1 RPC chain id 901, expected 900"),
        ('"l1" = "http://user:5ecret@127.0.0.1:99999"', "invalid value"),
    ],
)
def test_a_wrong_file_changes_nothing(node: ReloadedNode, text: str, error: str) -> None:
    addresses = {"beacon": node.chain.beacon, "engine": node.chain.public}
    files = f'\n"p2p.sequencer.key.path" = "{node.key}"\n"l2.jwt-secret" = "{node.chain.files.jwt}"'
    node.file.write_text(text.format(**addresses) + files)
    with pytest.raises(RpcError, match="reload refused, nothing is changed") as caught:
        call(node.rpc, "admin_reload")
    assert error in caught.value.message and "5ecret" not in caught.value.message
    assert "5ecret" not in node.program.out
    assert node.incarnations() == node.before
    assert node.reload() == {"changed": [], "restarted": [], "needRestart": []}


def test_an_option_that_needs_a_restart_is_named(node: ReloadedNode) -> None:
    result = node.reload(metrics_enabled=True, l1_cache__size=500)
    assert result == {"changed": ["l1.cache-size"], "restarted": ["l1"], "needRestart": ["metrics.enabled"]}
    node.program.wait_for_line("options are not taken over before a restart of the node")
    assert node.reload(metrics_enabled=None, l1_cache__size=None)["needRestart"] == []


def test_reloads_at_once_are_one(node: ReloadedNode) -> None:
    node.write(l1_cache__size=600)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: call(node.rpc, "admin_reload"), range(8)))
    assert any(result["restarted"] == ["l1"] for result in results)
    wanted = node.before | {"l1": node.before["l1"] + 1}
    wait_for(lambda: node.incarnations() == wanted, "l1 is restarted, once")
    wait_for(lambda: not unready_reasons(node.rpc), "the node is ready")
    assert node.incarnations() == wanted
    node.reload(l1_cache__size=None)


@pytest.mark.parametrize("secret", ["1e", "1f"])
def test_a_new_secret_of_the_engine(node: ReloadedNode, secret: str) -> None:
    """The engine gets it first, and the node with a reload: from its file, then from its options."""
    node.chain.files.jwt.write_text(secret * 32)
    node.chain.restart_engine()
    node.engine.redirect(node.chain.engine)
    wait_unready(node, "ENGINE-AUTH")
    options = {"l2_jwt__secret__encoded": secret * 32, "l2_jwt__secret": None} if secret == "1f" else {}
    if options:
        node.write(**options)
    assert node.reload()["restarted"] == ["engine"]


def test_a_moved_log_file_is_opened_again(node: ReloadedNode) -> None:
    """[LOG22]"""
    moved = node.log.rename(node.log.with_name("moved.log"))
    node.reload()
    assert "options read again" in node.log.read_text()
    assert '"starting node"' in moved.read_text() and "options that are set" in moved.read_text()


def test_bans(node: ReloadedNode) -> None:
    """The peer's score is above the threshold by default."""
    peers = Peers(node)
    with peers.reloaded({"p2p.ban.threshold": 1}):
        assert wait_for(lambda: peers.ban_seconds, "the threshold acts") > 3500
    with peers.reloaded({"p2p.ban.duration": "3s"}) as host:
        assert wait_for(lambda: peers.ban_seconds, "it is banned again") <= 3
        peers.connect(host)
    with peers.reloaded({"p2p.ban.peers": False}):
        assert peers.stays()
    with peers.reloaded({"p2p.ban.peers": True, "p2p.ban.threshold": -1}):
        assert peers.stays()


def test_bootnodes(node: ReloadedNode) -> None:
    peers = Peers(node)
    with in_thread(running_discv5("bootnode", tcp=free_port())) as bootnode:
        assert peers.call("discoveryTable") == []
        peers.take_over({"p2p.bootnodes": [bootnode.enr.text]})
        wait_for(lambda: peers.call("discoveryTable") == [bootnode.enr.text], "the bootnode is in the table")
        own = peers.call("self")["ENR"]
        wait_for(lambda: own in bootnode.table_texts, "the bootnode knows the node")


def test_the_node_stops_in_order_after_all_this(node: ReloadedNode) -> None:
    assert node.program.stop().code == 0
    assert not node.runtime.exists()
    assert '"node stopped"' in node.log.read_text()
    assert node.before and not (node.late_blocks > 30)
