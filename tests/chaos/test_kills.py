"""Every process of a node but its supervisor is killed, stopped, or lost together with others, in the middle of a run
of the local network; both nodes still end with equal output roots."""

import os
import signal
from typing import Any

import pytest

from tests.support.programs import Devnet

ROWS = ("l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc", "sweeper")
BUG = "a bug ends"
PROGRESS = 2


def go_on(net: Devnet, victim: str) -> None:
    """The chain grows past what both nodes had, and the victim says that it is ready."""
    higher = net.wait(lambda: 1 + max(map(net.safe, net.nodes)), "a sync status of both nodes")
    for name in net.nodes:
        net.wait_safe(higher + PROGRESS - 1, name)
    net.wait(lambda: net.ready(victim), f"{victim} to be ready")


def assert_no_bug(net: Devnet) -> None:
    for name in net.nodes:
        assert BUG not in net.log(name), net.logs(60)
        assert "Traceback" not in net.log(name), net.logs(60)


@pytest.mark.parametrize("victim", Devnet.nodes)
def test_each_row_of_a_node_is_killed(leftovers: Any, victim: str) -> None:
    with Devnet(leftovers) as net:
        net.wait_up()
        assert set(net.processes(victim)) == {"supervisor", *ROWS}
        for role in ROWS:
            net.kill_row(victim, role)
            go_on(net, victim)
        lives = {role: entry["incarnation"] for role, entry in net.processes(victim).items()}
        assert lives == {"supervisor": 1, **dict.fromkeys(ROWS, 2)}
        assert_no_bug(net)
        result = net.finish()
    shown = {entry["role"].split(".")[0]: entry["incarnation"] for entry in result["processes"][victim]}
    assert shown == lives


def test_rows_are_lost_together_stopped_and_while_nobody_is_ready(leftovers: Any) -> None:
    with Devnet(leftovers) as net:
        net.wait(lambda: len(net.processes("sequencer")) > 3, "the first rows")
        for name in net.nodes:
            net.kill_row(name, "l1")
        net.wait_up()
        stopped = [
            (name, net.processes(name)[role]) for name, role in (("sequencer", "engine"), ("sequencer", "blobs"))
        ]
        for _, entry in stopped:
            os.kill(entry["pid"], signal.SIGSTOP)
        for together in (("l1", "derivation"), ("engine", "compute", "rpc"), ROWS):
            before = net.processes("verifier")
            for role in together:
                os.kill(before[role]["pid"], signal.SIGKILL)
            for role in together:
                net.wait_replaced("verifier", before[role])
            net.wait(lambda: net.ready("verifier"), "verifier to be ready")
        for name, entry in stopped:
            net.wait_replaced(name, entry)
        assert net.log("sequencer").count("stopped by a signal for") >= len(stopped)
        for name in net.nodes:
            go_on(net, name)
        assert_no_bug(net)
        net.finish()
