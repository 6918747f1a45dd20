"""Every process of a node but its supervisor is killed, stopped, or lost together with others, in the middle of a run
of the local network; both nodes still end with equal output roots."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.programs import Devnet

ROWS = ("l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc", "sweeper")
BUG = "a bug ends"
PROGRESS = 2


def go_on(net: Devnet, victim: str) -> None:
    """The chain grows past what both nodes had, and the victim says that it is ready."""
    higher = net.wait(lambda: 1 + max(map(net.safe_number, net.nodes)), "a sync status of both nodes")
    for name in net.nodes:
        net.wait_for_safe(higher + PROGRESS - 1, name)
    net.wait(lambda: net.is_ready(victim), f"{victim} to be ready")


def lives(net: Devnet, name: str) -> dict[str, int]:
    """Which life each row of a node is in, once all of them live."""

    def found() -> dict[str, int] | None:
        entries = net.processes(name)
        is_whole = set(entries) == {"supervisor", *ROWS}
        return {role: entry["incarnation"] for role, entry in entries.items()} if is_whole else None

    return net.wait(found, f"all rows of the {name}") or {}


@pytest.fixture(scope="module")
def net(module_leftovers: Any) -> Iterator[Devnet]:
    """A network that the tests of the module share, the first of them while it starts; it ends with equal output
    roots, and tells the last lives of its processes."""
    with Devnet(module_leftovers) as running:
        yield running
        for name in running.nodes:
            assert BUG not in running.log(name), running.logs(60)
            assert "Traceback" not in running.log(name), running.logs(60)
        last = {name: lives(running, name) for name in running.nodes}
        result = running.finish()
    for name, entries in result["processes"].items():
        assert {entry["role"].split(".")[0]: entry["incarnation"] for entry in entries} == last[name]


def test_rows_are_lost_together_stopped_and_while_nobody_is_ready(net: Devnet) -> None:
    net.wait(lambda: len(net.processes("sequencer")) > 3, "the first rows")
    for name in net.nodes:
        net.kill_process(name, "l1")
    net.wait_for_first_safe()
    stopped = [
        (name, net.process_entry(name, role)) for name, role in (("sequencer", "engine"), ("sequencer", "blobs"))
    ]
    for _, entry in stopped:
        os.kill(entry["pid"], signal.SIGSTOP)
    for together in (("l1", "derivation"), ("engine", "compute", "rpc"), ROWS):
        before = {role: net.process_entry("verifier", role) for role in together}
        for role in together:
            os.kill(before[role]["pid"], signal.SIGKILL)
        for role in together:
            net.wait_for_restart("verifier", before[role])
        net.wait(lambda: net.is_ready("verifier"), "verifier to be ready")
    for name, entry in stopped:
        net.wait_for_restart(name, entry)
    assert net.log("sequencer").count("stopped by a signal for") >= len(stopped)
    for name in net.nodes:
        go_on(net, name)


@pytest.mark.parametrize("victim", Devnet.nodes)
def test_each_row_of_a_node_is_killed(net: Devnet, victim: str) -> None:
    net.wait_for_first_safe()
    before = lives(net, victim)
    for role in ROWS:
        net.kill_process(victim, role)
        go_on(net, victim)
    assert lives(net, victim) == {role: life + (role in ROWS) for role, life in before.items()}
