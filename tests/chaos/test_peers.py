"""Peers of a running network come late, are killed, and are cut off: all end with the chain of the sequencer."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.support.programs import Devnet, Program, RpcError, call, wait_for

LOOPBACK_NET = {"IP": "127.0.0.0", "Mask": "/wAAAA=="}
FAR = 100_000
"""More confirmations than L1 has blocks: derivation waits, so that every block comes from peers."""


class OwnNode:
    """A verifier with an engine of its own beside the network, which it knows by a peer's address; killed and started
    again as often as one likes, with what it had on disk."""

    def __init__(self, watch: Any, net: Devnet, peer: str) -> None:
        self._watch, self._root = watch, watch.folder / "own"
        self._root.mkdir()
        network = net.network
        words = ("--genesis", network["l2_genesis"], "--jwt", network["jwt"], "--http", "0", "--auth", "0")
        self.engine = Program(watch, "rollup_node.tools.devnet.engine", *words)
        said = self.engine.wait_for_line("genesis ").split()
        options = {
            "l1": network["l1"],
            "l1.beacon": network["beacon"],
            "l1.http-poll-interval": "500ms",
            "l2": said[said.index("auth") + 1],
            "l2.jwt-secret": network["jwt"],
            "rollup.config": network["rollup"],
            "rollup.l1-chain-config": str(net.root / "l1-chain-config.json"),
            "interop.dependency-set": str(net.root / "dependency-set.json"),
            "verifier.l1-confs": FAR,
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
        self.program = Program(self._watch, "rollup_node.node", *self._words)
        return self.program

    @property
    def url(self) -> str:
        """Where its RPC server listens in its present life."""
        line = self.program.wait_for_line('"rpc server is listening"')
        return f"http://127.0.0.1:{line.partition('port=')[2].split()[0]}"

    def unsafe(self) -> int:
        return int(call(self.url, "optimism_syncStatus")["unsafe_l2"]["number"])

    def block_hash(self, number: int) -> str:
        return str(call(self.url, "optimism_outputAtBlock", hex(number))["blockRef"]["hash"])

    def kill(self) -> None:
        """Everything of the node at once, as when the power goes."""
        entries = json.loads((self._root / "run" / "processes.json").read_text())
        supervisor = next(entry for entry in entries if entry["role"] == "supervisor")
        os.kill(supervisor["pid"], signal.SIGKILL)
        self.program.process.wait(30)

    def end(self) -> None:
        self.program.stop()
        self.engine.kill()


def unsafe(net: Devnet, name: str) -> int:
    return int(net.sync_status(name)["unsafe_l2"]["number"])


def disconnected(url: str) -> bool:
    """Disconnects the peers that a node has; whether it had none. One that was connecting is there only later."""
    peers = list(call(url, "opp2p_peers", True)["peers"])
    for peer in peers:
        with suppress(RpcError):
            call(url, "opp2p_disconnectPeer", peer)
    return not peers


def same_chain(net: Devnet, node: OwnNode, last: int) -> None:
    """Its blocks are those of the sequencer."""
    for number in range(1, last + 1):
        theirs = call(net.node("sequencer")["rpc"], "optimism_outputAtBlock", hex(number))
        assert node.block_hash(number) == theirs["blockRef"]["hash"], number


@pytest.fixture(scope="module")
def net(module_leftovers: Any) -> Iterator[Devnet]:
    """A network of a sequencer and two verifiers, which ends with equal output roots."""
    with Devnet(module_leftovers, "--nodes", "2") as running:
        running.nodes = ("sequencer", "verifier", "verifier-2")
        running.wait_for_first_safe()
        yield running
        assert "a bug ends" not in "".join(map(running.log, running.nodes))
        running.finish()


@pytest.fixture(scope="module")
def late(net: Devnet, module_leftovers: Any) -> Iterator[OwnNode]:
    """A node that comes when the network has blocks already."""
    net.wait(lambda: unsafe(net, "sequencer") >= 12, "some blocks of history")
    node = OwnNode(module_leftovers, net, net.node("sequencer")["p2p"])
    try:
        yield node
    finally:
        node.end()


def test_a_verifier_that_joins_late_fills_its_gap_from_peers(net: Devnet, late: OwnNode) -> None:
    missing = unsafe(net, "sequencer")
    net.wait(lambda: late.unsafe() >= missing, f"the blocks up to {missing}: {late.program.out[-3000:]}")
    status = call(late.url, "optimism_syncStatus")
    assert status["safe_l2"]["number"] == 0, "derivation has given it nothing"
    same_chain(net, late, missing)
    net.wait(lambda: "a peer gave a missing block" in late.program.out, "the log to name who gave the blocks")
    scores = next(iter(call(late.url, "opp2p_peers", True)["peers"].values()))["scores"]["reqResp"]
    assert scores["validResponses"] > 0 and scores["rejectedPayloads"] == 0


def test_a_node_is_killed_and_another_cut_off(net: Devnet, late: OwnNode) -> None:
    """The one comes back with its engine's chain; the other hears nothing of unsafe blocks until it may again."""
    url = net.node("verifier-2")["rpc"]
    late.kill()
    call(url, "opp2p_blockSubnet", LOOPBACK_NET)
    net.wait(lambda: disconnected(url), "the last peer to go")
    before = unsafe(net, "sequencer")
    net.wait(lambda: unsafe(net, "sequencer") >= before + 5, "blocks during the partition")
    assert call(url, "opp2p_peerStats")["connected"] == 0
    call(url, "opp2p_unblockSubnet", LOOPBACK_NET)
    late.start()
    now = unsafe(net, "sequencer")
    for name in net.nodes:
        net.wait(lambda name=name: unsafe(net, name) >= now, f"{name} to have block {now}")  # type: ignore[misc]
    net.wait(lambda: call(url, "opp2p_peerStats")["connected"] >= 1, "a peer after the partition")
    wait_for(lambda: late.unsafe() >= now, f"the killed node to have block {now}: {late.program.out[-3000:]}")
    same_chain(net, late, now)
    net.wait(lambda: unsafe(net, "verifier-2") >= unsafe(net, "sequencer") - 1, "the cut off node to follow the tip")


def test_the_doctor_finds_nothing_at_fault(net: Devnet, module_leftovers: Any) -> None:
    for name in net.nodes:
        words = ("p2p", "doctor", "--rpc", net.node(name)["rpc"])
        with Program(module_leftovers, "rollup_node.node", *words) as doctor:
            ended = doctor.wait_for_exit()
        assert ended.code == 0 and "fault" not in ended.out, ended
        assert "blocks were published" in ended.out if name == "sequencer" else "blocks of peers, the last" in ended.out


def test_a_stopped_p2p_process_is_replaced_and_its_node_follows(net: Devnet) -> None:
    entry = net.process_entry("verifier", "p2p")
    os.kill(entry["pid"], signal.SIGSTOP)
    net.wait_for_restart("verifier", entry)
    now = unsafe(net, "sequencer")
    net.wait(lambda: unsafe(net, "verifier") >= now + 1, "the verifier to follow")
