"""Late nodes whose engine is op-geth with another op-geth as its peer: the engine fetches the gap below gossiped blocks
[UNS6], and the chain of a follow source without any gossip [FSR3]."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.foreign.op_programs import ForeignProgram, find_program
from tests.support.processes.extra_node import ExtraNode
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, call, wait_for
from tests.support.servers.loopback import free_port, own_address

L1_CONFS = 100_000
"""More confirmations than L1 has blocks: derivation waits, so that no block comes from L1."""
BLOCKS_BEFORE = 6
STOP_SECONDS = 20.0


class Geth(NamedTuple):
    """A running op-geth: its public and its authenticated URL, and the address of its P2P server."""

    http: str
    auth: str
    enode: str


@contextmanager
def op_geth(watch: Leftovers, binary: str, net_folder: Path, name: str) -> Iterator[Geth]:
    """op-geth with the network's genesis. It listens for peers on loopback and looks for none."""
    data, genesis = str(watch.folder / name), str(net_folder / "l2-genesis.json")
    with ForeignProgram(watch, binary, "init", "--state.scheme=hash", "--datadir", data, genesis) as init:
        assert init.wait_for_exit().code == 0
    host, http, auth, peers = own_address(), free_port(), free_port(), free_port()
    config = watch.folder / f"{name}.toml"
    config.write_text(
        f'[Node.P2P]\nListenAddr = "{host}:{peers}"\nNoDiscovery = true\nBootstrapNodes = []\nBootstrapNodesV5 = []\n'
    )
    flags = ["--config", str(config), "--datadir", data, "--syncmode", "full", "--gcmode", "archive", "--ipcdisable"]
    flags += ["--nat", "none", "--netrestrict", "127.0.0.0/8", "--maxpeers", "4"]
    flags += ["--http", "--http.addr", host, "--http.port", str(http), "--http.api", "eth,net,web3,admin"]
    flags += ["--authrpc.addr", host, "--authrpc.port", str(auth)]
    flags += ["--authrpc.jwtsecret", str(net_folder / "jwt.txt")]
    with ForeignProgram(watch, binary, *flags) as geth:
        url = f"http://{host}:{http}"
        about = wait_for(lambda: call(url, "admin_nodeInfo"), "op-geth answers")
        key = about["enode"].partition("@")[0]
        yield Geth(url, f"http://{host}:{auth}", f"{key}@{host}:{peers}")
        assert geth.running, geth.err[-3000:]
        geth.stop(STOP_SECONDS)


class Late(NamedTuple):
    """A network whose verifier has op-geth as its engine, and an empty op-geth that is a peer of that one."""

    net: Devnet
    engine: Geth
    other: Geth


@contextmanager
def late_engine(watch: Leftovers) -> Iterator[Late]:
    """Both engines, and a network with some blocks."""
    binary, net_folder = find_program("op-geth"), watch.folder / "net"
    with Program(watch, "rollup_node.node", "devnet", "--prepare", "--data-dir", str(net_folder)) as prepare:
        prepare.wait_for_exit().lines()
    with (
        op_geth(watch, binary, net_folder, "geth") as other,
        op_geth(watch, binary, net_folder, "late") as engine,
        Devnet(watch, "--verifier-engine", f"{other.http},{other.auth}", *CALLDATA) as net,
    ):
        net.wait(lambda: net.sync_status("verifier")["unsafe_l2"]["number"] >= BLOCKS_BEFORE, "unsafe blocks")
        assert call(engine.http, "admin_addPeer", other.enode)
        wait_for(lambda: call(engine.http, "admin_peers"), "the engines are peers")
        yield Late(net, engine, other)
        net.finish()


def assert_same_block(late: Late, number: int) -> None:
    """Asserts that both engines have the same block."""
    urls = late.engine.http, late.other.http
    ours, theirs = (call(url, "eth_getBlockByNumber", hex(number), False)["hash"] for url in urls)
    assert ours == theirs


def test_a_gap_below_gossiped_blocks(leftovers: Leftovers) -> None:
    with late_engine(leftovers) as late:
        options = {"l2": late.engine.auth, "p2p.sync.req-resp": "false", "verifier.l1-confs": L1_CONFS}
        node = ExtraNode(leftovers, late.net, late.net.node("sequencer")["p2p"], options)
        try:
            missing = late.net.sync_status("verifier")["unsafe_l2"]["number"]
            wait_for(lambda: node.head() > missing, f"the gap is closed: {node.program.out[-3000:]}")
            assert_same_block(late, missing)
            assert node.head("safe_l2") == 0, "no block was derived"
        finally:
            node.stop()


def test_the_chain_of_a_follow_source(leftovers: Leftovers) -> None:
    """The source names blocks by their hash alone."""
    with late_engine(leftovers) as late:
        source = late.net.node("verifier")["rpc"]
        options = {"l2": late.engine.auth, "p2p.disable": "true", "l2.follow.source": source}
        node = ExtraNode(leftovers, late.net, "", options)
        try:
            late.net.wait_for_safe(1)
            first = late.net.safe_number()
            wait_for(lambda: node.head("safe_l2") > first, f"it follows: {node.program.out[-3000:]}")
            assert_same_block(late, first)
        finally:
            node.stop()
