"""An external L1 and its Beacon API are unreachable for a while during a run. In the end supervisor and devnet command
are killed, and leave no process, socket or file behind."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rollup_node.tools.devnet.cli import main
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import (
    Devnet,
    Program,
    assert_same_outputs,
    is_alive,
    reports_problem,
    wait_for,
)
from tests.support.servers.tcp_relay import TcpRelay

Relays = tuple[TcpRelay, TcpRelay]


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.fixture(scope="module")
def relays(module_leftovers: Leftovers) -> Iterator[Relays]:
    """Yield relays to an L1 that is a program of its own, and to its Beacon API."""
    directory = module_leftovers.folder / "net"
    assert main(["--prepare", "--data-dir", str(directory)]) == 0
    flags = ("--genesis", str(directory / "l1-genesis.json"), "--slot-time", "1")
    with Program(module_leftovers, "rollup_node.tools.devnet.l1", *flags) as l1_program:
        words = l1_program.wait_for_line("L1 ").split()
        l1, beacon = (TcpRelay(port_of(words[words.index(name) + 1])) for name in ("L1", "beacon"))
        with l1, beacon:
            yield l1, beacon


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers, relays: Relays) -> Iterator[Devnet]:
    """Yield a network on that L1, which the last test kills."""
    l1, beacon = relays
    with Devnet(module_leftovers, "--l1", l1.url, "--beacon", beacon.url) as running:
        running.wait_for_first_safe()
        yield running


def test_l1_and_beacon_outages_of_all_nodes(net: Devnet, relays: Relays) -> None:
    """The nodes report them in `/readyz`, and have equal output roots afterwards."""
    l1, beacon = relays
    for relay, process in ((beacon, "blobs"), (l1, "l1")):
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
def test_killed_programs_leave_nothing_behind(net: Devnet, module_leftovers: Leftovers) -> None:
    """The supervisor first. The command is stopped meanwhile, since it would end the network after its node; what it
    leaves behind itself is seen at the end of the module."""
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
