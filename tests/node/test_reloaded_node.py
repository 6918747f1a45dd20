"""A sequencing node whose options file changes while it runs: each change acts, and no block is missing [LIF35]."""

import signal
import socket
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from rollup_node.tools.devnet.files import SIGNER_KEY
from tests.support.chains.local_chain import LocalChain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import RpcError, call, unready_reasons, wait_for
from tests.support.processes.reloaded_node import ReloadedNode, relay_to
from tests.support.servers.tcp_relay import LOOPBACK

OTHER_PEER = "16Uiu2HAmB2zwbdqFhKcK6XvdMRBQHcqqxvGwq1aGRdVVFzDbRCgd"


@pytest.fixture(scope="module")
def node(module_leftovers: Leftovers) -> Iterator[ReloadedNode]:
    with LocalChain(module_leftovers) as chain:
        node = ReloadedNode(chain, module_leftovers.folder)
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
    with relay_to(node.chain.l1) as relay:
        assert node.reload(l1=relay.url)["restarted"] == ["l1"]
        relay.cut()
        wait_unready(node, relay.name)
        node.reload(l1=f"{relay.url},{node.chain.l1}")
        node.reload(l1=node.chain.l1)


def test_the_endpoint_of_the_beacon_node(node: ReloadedNode) -> None:
    with relay_to(node.chain.beacon) as relay:
        assert node.reload(l1_beacon=relay.url)["restarted"] == ["blobs"]
        node.program.wait_for_line(f'"fetching blobs" endpoints={relay.name}')
        node.reload(l1_beacon=node.chain.beacon)


def test_static_peers(node: ReloadedNode) -> None:
    """The dialled port is closed."""
    with socket.socket() as closed:
        closed.bind((LOOPBACK, 0))
        peer = f"/ip4/{LOOPBACK}/tcp/{closed.getsockname()[1]}/p2p/{OTHER_PEER}"
        assert node.reload(p2p_static=[peer])["restarted"] == ["p2p", "rpc"], "rpc says whether peers are found"
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
    node.engine.redirect(int(node.chain.engine.rpartition(":")[2]))
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


def test_the_node_stops_in_order_after_all_this(node: ReloadedNode) -> None:
    assert node.program.stop().code == 0
    assert not node.runtime.exists()
    assert '"node stopped"' in node.log.read_text()
    assert node.before and not (node.late_blocks > 30)
