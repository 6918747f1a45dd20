"""Reloads of a toy node: which processes are restarted, and when nothing is changed [LIF35]."""

import json
import os
import signal
from typing import Any

import msgspec
import pytest

from rollup_node.stages.io.task import ReloadResult
from tests.support.processes.toy_harness import StartNode, ToyNode

SHARED = {"reload": True}


def reload(node: ToyNode, number: signal.Signals = signal.SIGHUP, **options: Any) -> None:
    new = node.folder / "new-options"
    new.write_text(json.dumps(options))
    new.rename(node.folder / "options")
    node.program.send_signal(number)


def result_of(node: ToyNode) -> ReloadResult:
    return msgspec.json.decode((node.directory / "reload.json").read_bytes(), type=ReloadResult)


def starts(node: ToyNode) -> dict[str, int]:
    return {name: entry["incarnation"] for name, entry in node.processes().items()}


def test_the_processes_of_changed_options_are_restarted_one_after_the_other(running: ToyNode) -> None:
    node, before = running, starts(running)
    reload(node, codes={"right": 5, "copy": 6}, need_restart=["l2"])
    for process in ("right", "copy-0", "copy-1"):
        node.wait_for_line("process started", name=process, incarnation=before[process] + 1)
        node.wait_for_line("toy started", process, code=5 if process == "right" else 6)
    order = [(line["msg"], line["name"]) for line in node.lines if line["msg"] in ("process ended", "process started")]
    assert order[-6:] == [
        (text, process) for process in ("right", "copy-0", "copy-1") for text in ("process ended", "process started")
    ]
    assert starts(node) == before | {name: before[name] + 1 for name in ("right", "copy-0", "copy-1")}
    result = result_of(node)
    assert (result.changed, result.restarted, result.need_restart) == (("right", "copy"), ("right", "copy"), ("l2",))
    line = node.wait_for_line("options are not taken over before a restart of the node")
    assert (line["options"], line["code"]) == ("l2", "RELOAD")
    node.wait_for_exchange()
    assert not node.logged("process died") and not node.logged("killing process")
    os.kill(node.processes()["right"]["pid"], signal.SIGKILL)
    node.wait_for_line("toy started", "right", count=2, code=5)


def test_a_chain_that_is_set_aside_delays_no_reload_and_comes_back_with_its_options(start: StartNode) -> None:
    """[LIF34]"""
    node = start(SHARED | {"chains": ("10", "130"), "pauses": {"LONGEST_PAUSE": 5.0}}).wait_until_ready()
    node.order("right.10", "halt")
    node.wait_for_line("chain is set aside", chain="10")
    reload(node, codes={"right.10": 5, "right.130": 6})
    node.wait_for_line("toy started", "right.10", code=5)
    node.wait_for_line("toy started", "right.130", code=6)
    (back,) = node.logged("chain is started again")
    (other,) = node.logged("process started", name="right.130", incarnation=2)
    assert node.lines.index(other) < node.lines.index(back)
    assert result_of(node).restarted == ("right.10", "right.130")
    node.wait_for_exchange(chain="10")
    node.stop()


def test_the_level_changes_without_a_restart(running: ToyNode) -> None:
    before = starts(running)
    reload(running, level=3)
    running.wait_for_line("options read again", changed="none", restarts="none")
    reload(running, signal.SIGUSR1, level=4)
    running.wait_for_line("options read again", count=2)
    assert starts(running) == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"error": "file node.toml is not TOML"}, "file node.toml is not TOML"),
        ({"check": "L1 is of another chain"}, "L1 is of another chain"),
        ({"check": "late", "check_seconds": 0.3}, "late"),
        ({"commit": "it is being written"}, "it is being written"),
        ({"level": "no level"}, "a bug (ValueError): see the log"),
    ],
)
def test_what_is_refused_changes_nothing(running: ToyNode, options: dict[str, Any], error: str) -> None:
    node, before = running, starts(running)
    reload(node, codes={"right": 5}, **options)
    line = node.wait_for_line("reload refused, nothing is changed")
    assert (line["error"], line["code"]) == (error, "RELOAD")
    assert result_of(node).error == error
    node.wait_for_exchange()
    assert starts(node) == before
    reload(node, codes={"right": 7})
    node.wait_for_line("toy started", "right", code=7)


def test_many_reloads_at_once_are_one_more_at_most(running: ToyNode) -> None:
    for _ in range(20):
        reload(running, codes={"right": 5}, check="", check_seconds=0.5)
    running.wait_for_line("toy started", "right", code=5)
    running.wait_for_exchange()
    assert len(running.logged("options read again")) <= 2


def test_a_reload_during_the_start_waits_for_it(start: StartNode) -> None:
    node = start(SHARED | {"precheck": "", "precheck_seconds": 0.5})
    node.wait((node.folder / "prechecks").exists)
    reload(node, codes={"left": 9})
    node.wait_for_line("toy started", "left", code=9)
    node.stop()


def test_a_process_that_does_not_stop_is_killed_for_its_options(start: StartNode) -> None:
    node = start(SHARED | {"refuse_to_stop": ["right"], "stop_timeout": {"right": 0.5}}).wait_until_ready()
    reload(node, codes={"right": 5})
    node.wait_for_line("killing process", name="right")
    node.wait_for_line("toy started", "right", code=5)
    assert not node.logged("process died")
    node.stop()


def test_a_process_that_dies_meanwhile_comes_back_with_its_new_options(running: ToyNode) -> None:
    node = running
    reload(node, codes={"left": 5, "copy": 6}, check="", check_seconds=0.3)
    os.kill(node.processes()["copy-0"]["pid"], signal.SIGKILL)
    node.wait_for_line("toy started", "left", code=5)
    node.wait_for_line("toy started", "copy-0", code=6)
    node.wait_for_line("toy started", "copy-1", code=6)


@pytest.mark.parametrize("options", [{"check": "", "check_seconds": 30}, {}])
def test_a_node_can_stop_during_a_reload(start: StartNode, options: dict[str, Any]) -> None:
    node = start(SHARED).wait_until_ready()
    reload(node, codes={"left": 5, "right": 5, "copy": 5}, **options)
    node.wait_for_line("received signal", name="SIGHUP")
    node.stop()


def test_without_options_to_read_again_a_signal_is_refused(start: StartNode) -> None:
    node = start().wait_until_ready()
    node.program.send_signal(signal.SIGHUP)
    node.wait_for_line(
        "reload refused, nothing is changed", error="this program takes no new options while it runs: restart it"
    )
    node.wait_for_exchange()
    node.stop()
