"""Every process of a node except its supervisor is killed or stopped, alone and together with others, during a run of
the local network; both nodes have recorded the same safe heads, and end with equal output roots."""

import os
import signal
from collections.abc import Iterator

import pytest

from rollup_node.node.system.process_table import PROCESSES
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet

ROLES = (*(template.role for template in PROCESSES if template.role != "interop"), "sweeper")
BUG = "a bug ends"
PROGRESS = 1
SHIFT = 3
"""A process of one node is killed with the one that many places before it of the other."""


def wait_progress(net: Devnet) -> None:
    """Wait until the safe heads of both nodes have advanced and both are ready."""
    higher = net.wait(lambda: 1 + max(map(net.safe_number, net.nodes)), "sync status of both nodes")
    for name in net.nodes:
        net.wait_for_safe(higher + PROGRESS - 1, name)
    net.wait(lambda: all(map(net.is_ready, net.nodes)), "ready nodes")


def incarnations(net: Devnet, name: str) -> dict[str, int]:
    """Return the incarnation of each process of a node, once all run."""

    def found() -> dict[str, int] | None:
        entries = net.processes(name)
        is_complete = set(entries) == {"supervisor", *ROLES}
        return {role: entry["incarnation"] for role, entry in entries.items()} if is_complete else None

    return net.wait(found, f"all processes of the {name}") or {}


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network for all tests of the module, the first of which runs while it starts.

    It ends with equal output roots, and its result has the last incarnations."""
    with Devnet(module_leftovers, "--l1-block-time", "2") as running:
        yield running
        for name in running.nodes:
            assert BUG not in running.log(name), running.logs(60)
            assert "Traceback" not in running.log(name), running.logs(60)
        last = {name: incarnations(running, name) for name in running.nodes}
        result = running.finish()
    for name, entries in result["processes"].items():
        assert {entry["role"].split(".")[0]: entry["incarnation"] for entry in entries} == last[name]


def test_processes_are_killed_during_the_start_together_and_while_others_are_stopped(net: Devnet) -> None:
    net.wait(lambda: len(net.processes("sequencer")) > 3, "first processes of the sequencer")
    for name in net.nodes:
        net.kill_process(name, "l1")
    net.wait_for_first_safe()
    stopped = [
        (name, net.process_entry(name, role)) for name, role in (("sequencer", "engine"), ("sequencer", "blobs"))
    ]
    for _, entry in stopped:
        os.kill(entry["pid"], signal.SIGSTOP)
    for together in (("l1", "derivation"), ("engine", "compute", "rpc"), ROLES):
        before = {role: net.process_entry("verifier", role) for role in together}
        for role in together:
            os.kill(before[role]["pid"], signal.SIGKILL)
        for role in together:
            net.wait_for_restart("verifier", before[role])
        net.wait(lambda: net.is_ready("verifier"), "ready verifier")
    for name, entry in stopped:
        net.wait_for_restart(name, entry)
    assert net.log("sequencer").count("stopped by a signal for") >= len(stopped)
    wait_progress(net)


@pytest.mark.fault("F56")
def test_each_process_of_a_node_is_killed(net: Devnet) -> None:
    """One of each node at a time, of different roles."""
    net.wait_for_first_safe()
    before = {name: incarnations(net, name) for name in net.nodes}
    for shift, role in enumerate(ROLES):
        victims = dict(zip(net.nodes, (role, ROLES[shift - SHIFT]), strict=True))
        killed = {name: net.process_entry(name, item) for name, item in victims.items()}
        for entry in killed.values():
            os.kill(entry["pid"], signal.SIGKILL)
        for name, entry in killed.items():
            net.wait_for_restart(name, entry)
        wait_progress(net)
    for name in net.nodes:
        assert incarnations(net, name) == {role: count + (role in ROLES) for role, count in before[name].items()}
    assert net.recorded_safe_heads()[-1]["safeHead"]["number"] > PROGRESS
