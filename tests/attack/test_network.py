"""A whole network on an external L1 under attack, while which it sequences, derives and answers, and no process is
restarted: its RPC servers, its P2P listeners and its metrics are attacked at once, another chain answers behind its L1
URL for a while, and L1 and its Beacon API are unreachable [LHD23, FIN9]. In the end supervisor and devnet command are
killed, and leave no process, socket or file behind."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from rollup_node.tools.devnet.cli import main as devnet_main
from tests.support.processes.forked_attacks import UNDER_WAY
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import peak_memory
from tests.support.processes.programs import (
    Devnet,
    EmbeddedL1,
    Program,
    assert_same_outputs,
    call,
    http_get,
    is_alive,
    reports_problem,
    unready_reasons,
    wait_for,
)
from tests.support.servers.tcp_relay import TcpRelay

MEMORY_MB = {"rpc": 200, "derivation": 300, "compute": 300, "l1": 300, "blobs": 300, "p2p": 250}
"""Bounds of docs/security.md."""

ATTACKS = {
    "sequencer": {"rpc": "many_calls", "p2p": "idle_streams"},
    "verifier": {"rpc": "half_sent_bodies", "metrics": "idle_connections", "p2p": "stalled_messages"},
}
"""The attack on each listener of each node; that of P2P has too few connections for two."""
BLOCKS = 1
WARNINGS_BYTES = 1_000_000 // 60
"""What warnings and errors may take in a minute."""
OTHER_GENESIS = {"number": "0x800"}
"""The other chain has the same chain id, and its finalized block is far above the head of the nodes' chain."""


class Network(NamedTuple):
    """A sequencer and a verifier, and the relays through which they reach the L1 of a genesis file."""

    devnet: Devnet
    l1_relay: TcpRelay
    beacon_relay: TcpRelay
    l1: str
    genesis: Path


@pytest.fixture(scope="module")
def network(module_leftovers: Leftovers) -> Iterator[Network]:
    """Yield the network, which the last test kills."""
    directory = module_leftovers.folder / "net"
    assert devnet_main(["--prepare", "--data-dir", str(directory)]) == 0
    genesis = directory / "l1-genesis.json"
    with (
        EmbeddedL1(module_leftovers, genesis) as l1,
        TcpRelay(l1.url) as l1_relay,
        TcpRelay(l1.beacon) as beacon_relay,
        Devnet(module_leftovers, "--l1", l1_relay.url, "--beacon", beacon_relay.url) as devnet,
    ):
        devnet.wait_for_first_safe()
        yield Network(devnet, l1_relay, beacon_relay, l1.url, genesis)


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def number_of(url: str, label: str) -> int:
    return int(call(url, "eth_getBlockByNumber", label, False)["number"], 16)


def incarnations(devnet: Devnet) -> dict[str, dict[str, int]]:
    """How often each process of each node has been started."""
    return {
        name: {role: entry["incarnation"] for role, entry in devnet.processes(name).items()} for name in devnet.nodes
    }


def attackers(leftovers: Leftovers, net: Devnet) -> Iterator[Program]:
    """Yield the programs that attack both nodes."""
    for name, attacks in ATTACKS.items():
        node = net.node(name)
        for server, attack in attacks.items():
            kind = "p2p" if server == "p2p" else "rpc"
            words = (node["p2p"], "0") if server == "p2p" else (str(port_of(node[server])), "127.0.0.2")
            yield Program(leftovers, f"tests.support.{kind}.attackers", attack, *words)


def warnings(net: Devnet, name: str) -> list[str]:
    """Return the lines of a node's log that are not about its normal work."""
    return [line for line in net.log(name).splitlines() if "lvl=info" not in line]


def refuses_l1(net: Devnet, name: str) -> bool:
    """Whether the head and the finalized block that a node has polled last are of another chain than its own."""
    reasons = " ".join(unready_reasons(net.node(name)["rpc"]))
    return all(f"L1-CONTRADICTS: {poll}: the chain of L1 head" in reasons for poll in ("head", "finality"))


def test_a_network_goes_on_while_it_is_attacked(network: Network, leftovers: Leftovers) -> None:
    net = network.devnet
    before = incarnations(net)
    logged = {name: len("".join(warnings(net, name))) for name in net.nodes}
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(program) for program in attackers(leftovers, net)]
        for program in programs:
            program.wait_for_line(UNDER_WAY)
        target = max(net.safe_number(name) for name in net.nodes) + BLOCKS
        for name in net.nodes:
            net.wait_for_safe(target, name)
            url = net.node(name)["rpc"]
            assert http_get(f"{url}/healthz")[0] == 200
            assert call(url, "optimism_syncStatus")["unsafe_l2"]["number"] >= target
        assert all(program.running for program in programs)
    assert incarnations(net) == before
    for name in net.nodes:
        for role, entry in net.processes(name).items():
            bound = MEMORY_MB.get(role.partition(":")[0])
            assert bound is None or peak_memory(entry["pid"]) < bound << 20, (name, role)
        lines = warnings(net, name)
        assert len("".join(lines)) - logged[name] < WARNINGS_BYTES, lines[-20:]


@pytest.mark.fault("F7")
@pytest.mark.condition("C5")
def test_a_chain_that_takes_the_place_of_l1_for_a_while(network: Network, leftovers: Leftovers) -> None:
    """Afterwards both nodes derive and finalize again."""
    net = network.devnet
    other_genesis = leftovers.folder / "other-genesis.json"
    other_genesis.write_text(json.dumps(json.loads(network.genesis.read_text()) | OTHER_GENESIS))
    with EmbeddedL1(leftovers, other_genesis) as other:
        other_url = other.url
        net.wait(lambda: all(net.finalized_number(name) > 0 for name in net.nodes), "finalized blocks")
        wait_for(lambda: number_of(other_url, "finalized") > number_of(network.l1, "latest"), "finality of the other")
        before = incarnations(net)
        network.l1_relay.redirect(other_url)
        net.wait(lambda: all(refuses_l1(net, name) for name in net.nodes), "the other chain is refused")
        network.l1_relay.redirect(network.l1)
        final, safe = net.finalized_number("verifier"), net.safe_number()
        net.wait(lambda: net.finalized_number("verifier") > final, "finality after the other chain")
        net.wait(lambda: net.safe_number() > safe, "safe blocks after the other chain")
        wait_for(lambda: net.is_ready("verifier"), "a ready verifier")
        assert incarnations(net) == before


def test_l1_and_beacon_outages_of_all_nodes(network: Network) -> None:
    """The nodes report them in `/readyz`, and have equal output roots afterwards."""
    net = network.devnet
    for relay, process in ((network.beacon_relay, "blobs"), (network.l1_relay, "l1")):
        relay.cut()
        text = f"{relay.name}: cannot connect (Connection refused)"
        for name in net.nodes:
            rpc = net.node(name)["rpc"]
            net.wait(partial(reports_problem, rpc, process, text), f"problem of {name}: {process}: {text}")
        relay.restore()
        net.wait(lambda: all(map(net.is_ready, net.nodes)), "ready nodes")
        higher = net.safe_number() + 2
        for name in net.nodes:
            net.wait_for_safe(higher, name)
    ours, theirs = (net.node(name)["rpc"] for name in net.nodes)
    assert_same_outputs(ours, theirs, higher)


def sockets_below(folder: Path) -> list[str]:
    """Return the Unix sockets below a folder, bound ones and files."""
    bound = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if f"{folder}/" in line]
    return bound + [str(path) for path in folder.rglob("*") if path.is_socket()]


@pytest.mark.fault("F56")
def test_killed_programs_leave_nothing_behind(network: Network, module_leftovers: Leftovers) -> None:
    """The supervisor first. The command is stopped meanwhile, since it would end the network after its node; what it
    leaves behind itself is seen at the end of the module."""
    net = network.devnet
    net.wait(lambda: all(map(net.is_ready, net.nodes)), "both nodes to be ready")
    folder = Path(net.node("verifier")["processes"]).parent
    net.wait(lambda: len(net.processes("verifier")) == 9, "all processes of the verifier")
    pids = [entry["pid"] for entry in net.processes("verifier").values()]
    assert all(map(is_alive, pids)) and sockets_below(folder)
    net.process.send_signal(signal.SIGSTOP)
    os.kill(net.process_entry("verifier", "supervisor")["pid"], signal.SIGKILL)

    def left() -> list[object]:
        return [*filter(is_alive, pids), *sockets_below(folder), *([folder] if folder.exists() else [])]

    wait_for(lambda: not left(), "clean-up after the supervisor")
    net.wait(lambda: net.is_ready("sequencer"), "ready sequencer")
    assert len(module_leftovers.processes()) >= 4 + 9
    net.kill()
