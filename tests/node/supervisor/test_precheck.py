"""The precheck of a toy node."""

import signal

import pytest

from tests.support.processes.toy_harness import StartNode


def test_a_failed_precheck_ends_the_start_with_one_line(start: StartNode) -> None:
    node = start({"precheck": "wrong chain id 5,\nexpected 7: check --l2"})
    assert node.wait_for_exit() == (1, "rollup-node: wrong chain id 5, expected 7: check --l2\n")
    assert not node.logged("process started")
    assert not [line for line in node.lines if "trace" in line]


def test_a_bug_in_the_precheck_ends_the_start(start: StartNode) -> None:
    node = start({"precheck": "bug"})
    code, text = node.wait_for_exit()
    assert code == 1
    assert text == "rollup-node: the check before the start failed by a bug (ValueError): see the log\n"
    assert "ValueError: a bug in the precheck" in node.logged("the check before the start failed by a bug")[0]["trace"]


def test_the_processes_wait_for_the_precheck_and_a_signal_ends_it(start: StartNode) -> None:
    node = start({"precheck": "", "precheck_seconds": 30})
    node.wait((node.folder / "prechecks").exists, "the precheck runs")
    node.stop()
    assert not node.logged("process started")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_precheck_interrupts_a_command(start: StartNode, number: signal.Signals) -> None:
    """[LIF26] After a SIGHUP its terminal is gone."""
    node = start({"job": 0, "precheck": "", "precheck_seconds": 30})
    node.wait((node.folder / "prechecks").exists, "the precheck runs")
    node.program.send_signal(number)
    code, _ = node.wait_for_exit()
    assert code == 130 and node.raw == []
