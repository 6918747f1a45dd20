"""Peers join a running network late, are killed, and are partitioned: all end with the sequencer's chain."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, RpcError, call, call_batch, wait_for

LOOPBACK_NET = {"IP": "127.0.0.0", "Mask": "/wAAAA=="}
L1_CONFS = 100_000
"""More confirmations than L1 has blocks: derivation waits, so that all blocks come from peers."""
BLOCKS_BEFORE, BLOCKS_MEANWHILE = 8, 3


class LateNode:
    """A verifier with an engine of its own that knows one peer of the network. It can be killed and started again on
    its files."""

    def __init__(self, watch: Leftovers, net: Devnet, peer: str) -> None:
        self._watch, self._root = watch, watch.folder / "own"
        self._root.mkdir()
        network = net.network
        words = ("--genesis", network["l2_genesis"], "--jwt", network["jwt"], "--http", "0", "--auth", "0")
        self.engine = Program(watch, "rollup_node.tools.devnet.engine", *words)
        printed = self.engine.wait_for_line("genesis ").split()
        options = {
            "l1": network["l1"],
            "l1.beacon": network["beacon"],
            "l1.http-poll-interval": "500ms",
            "l2": printed[printed.index("auth") + 1],
            "l2.jwt-secret": network["jwt"],
            "rollup.config": network["rollup"],
            "rollup.l1-chain-config": str(net.root / "l1-chain-config.json"),
            "interop.dependency-set": str(net.root / "dependency-set.json"),
            "verifier.l1-confs": L1_CONFS,
            "rpc.addr": "127.0.0.1",
            "rpc.port": 0,
            "p2p.listen.ip": "127.0.0.1",
            "p2p.listen.tcp": 0,
            "p2p.netrestrict": "127.0.0.0/8",
            "p2p.no-discovery": "true",
            "p2p.static": peer,
            "p2p.priv.path": self._root / "key",
            "p2p.peerstore.path": self._root / "peers.db",
            "runtime.dir": self._root / "run",
            "log.level": "debug",
            "workers": 1,
        }
        self._words = [f"--{name}={value}" for name, value in options.items()]
        self.program = self.start()

    def start(self) -> Program:
        """Starts the node."""
        self.program = Program(self._watch, "rollup_node.node", *self._words)
        return self.program

    @property
    def url(self) -> str:
        """The URL of the RPC server, which changes with each start."""
        line = self.program.wait_for_line('"rpc server is listening"')
        return f"http://127.0.0.1:{line.partition('port=')[2].split()[0]}"

    def unsafe(self) -> int:
        """The number of the unsafe head."""
        return int(call(self.url, "optimism_syncStatus")["unsafe_l2"]["number"])

    def kill(self) -> None:
        """Kills the supervisor, and so all processes at once."""
        entries = json.loads((self._root / "run" / "processes.json").read_text())
        supervisor = next(entry for entry in entries if entry["role"] == "supervisor")
        os.kill(supervisor["pid"], signal.SIGKILL)
        self.program.process.wait(30)

    def stop(self) -> None:
        """Stops node and engine."""
        self.program.stop()
        self.engine.kill()


def unsafe(net: Devnet, name: str) -> int:
    """The number of a node's unsafe head."""
    return int(net.sync_status(name)["unsafe_l2"]["number"])


def wait_unsafe(net: Devnet, name: str, number: int) -> None:
    """Waits until a node's unsafe head has at least this number."""
    net.wait(lambda: unsafe(net, name) >= number, f"unsafe head {number} of the {name}")


def disconnected(url: str) -> bool:
    """Disconnects all peers of a node; whether it had none. A peer that is still connecting may appear later."""
    peers = list(call(url, "opp2p_peers", True)["peers"])
    for peer in peers:
        with suppress(RpcError):
            call(url, "opp2p_disconnectPeer", peer)
    return not peers


def assert_same_chain(net: Devnet, node: LateNode, last: int) -> None:
    """Asserts that a node's blocks up to `last` are those of the sequencer."""
    calls = [("optimism_outputAtBlock", hex(number)) for number in range(1, last + 1)]
    theirs, ours = (call_batch(url, *calls) for url in (net.node("sequencer")["rpc"], node.url))
    assert [each["blockRef"]["hash"] for each in ours] == [each["blockRef"]["hash"] for each in theirs]


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """A network with a sequencer and two verifiers, which ends with equal output roots."""
    with Devnet(module_leftovers, "--nodes", "2", *CALLDATA) as running:
        running.nodes = ("sequencer", "verifier", "verifier-2")
        running.wait_for_first_safe()
        yield running
        assert "a bug ends" not in "".join(map(running.log, running.nodes))
        running.finish()


@pytest.fixture(scope="module")
def late(net: Devnet, module_leftovers: Leftovers) -> Iterator[LateNode]:
    """A node that joins when the network has some blocks."""
    net.wait(lambda: unsafe(net, "sequencer") >= BLOCKS_BEFORE, f"{BLOCKS_BEFORE} unsafe blocks")
    node = LateNode(module_leftovers, net, net.node("sequencer")["p2p"])
    try:
        yield node
    finally:
        node.stop()


def test_a_late_verifier_gets_missing_blocks_from_peers(net: Devnet, late: LateNode) -> None:
    missing = unsafe(net, "sequencer")
    net.wait(lambda: late.unsafe() >= missing, f"block {missing}: {late.program.out[-3000:]}")
    status = call(late.url, "optimism_syncStatus")
    assert status["safe_l2"]["number"] == 0, "no block was derived"
    assert_same_chain(net, late, missing)
    net.wait(lambda: "received missing block from peer" in late.program.out, "log line of a block from a peer")
    scores = next(iter(call(late.url, "opp2p_peers", True)["peers"].values()))["scores"]["reqResp"]
    assert scores["validResponses"] > 0 and scores["rejectedPayloads"] == 0


def test_one_node_is_killed_and_another_partitioned(net: Devnet, late: LateNode) -> None:
    """The killed node continues its engine's chain; the partitioned one gets no unsafe blocks until it is unblocked."""
    url = net.node("verifier-2")["rpc"]
    late.kill()
    call(url, "opp2p_blockSubnet", LOOPBACK_NET)
    net.wait(lambda: disconnected(url), "disconnected peers")
    before = unsafe(net, "sequencer")
    net.wait(lambda: unsafe(net, "sequencer") >= before + BLOCKS_MEANWHILE, "blocks during the partition")
    assert call(url, "opp2p_peerStats")["connected"] == 0
    call(url, "opp2p_unblockSubnet", LOOPBACK_NET)
    late.start()
    now = unsafe(net, "sequencer")
    for name in net.nodes:
        wait_unsafe(net, name, now)
    net.wait(lambda: call(url, "opp2p_peerStats")["connected"] >= 1, "peer after the partition")
    wait_for(lambda: late.unsafe() >= now, f"block {now} of the killed node: {late.program.out[-3000:]}")
    assert_same_chain(net, late, now)
    net.wait(lambda: unsafe(net, "verifier-2") >= unsafe(net, "sequencer") - 1, "tip of the partitioned node")


def test_the_doctor_finds_no_problem(net: Devnet, module_leftovers: Leftovers) -> None:
    for name in ("sequencer", "verifier"):
        url = net.node(name)["rpc"]
        net.wait(lambda url=url: call(url, "opp2p_peerStats")["blocksTopicV4"] >= 1, f"a peer of {name} on the topic")  # type: ignore[misc]
        words = ("p2p", "doctor", "--rpc", url)
        with Program(module_leftovers, "rollup_node.node", *words) as doctor:
            ended = doctor.wait_for_exit()
        assert ended.code == 0 and "fault" not in ended.out, ended
        assert (
            "blocks were published" in ended.out if name == "sequencer" else "blocks from peers, the last" in ended.out
        )


def test_a_stopped_p2p_process_is_restarted(net: Devnet) -> None:
    entry = net.process_entry("verifier", "p2p")
    os.kill(entry["pid"], signal.SIGSTOP)
    net.wait_for_restart("verifier", entry)
    wait_unsafe(net, "verifier", unsafe(net, "sequencer") + 1)
