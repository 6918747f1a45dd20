"""The supervisor with toy processes, started as a program: deaths, hangs, signals, and errors at the start."""

import errno
import json
import os
import resource
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from rollup_node.node.supervisor import supervisor
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system import process_control
from rollup_node.node.system.exit_codes import ExitCode
from tests.support.foreign_user import needs_root
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.toy_harness import PROCESSES, StartNode, ToyNode


def test_every_process_may_be_killed(running: ToyNode) -> None:
    for name in ("left", "right", "copy-1", "sweeper"):
        before = running.processes()[name]
        os.kill(before["pid"], signal.SIGKILL)
        running.wait_for_line("process died", "supervisor", name=name, reason="signal SIGKILL")
        again = before["incarnation"] + 1
        if name != "sweeper":
            running.wait_for_restart(name, again)
        assert running.wait_for_entry(name, again)["pid"] != before["pid"]
    assert running.last_response().endswith(" 100000")


@pytest.mark.parametrize("ended_by", ["the time", "a signal"])
def test_a_halt_leaves_one_process_until(start: StartNode, ended_by: str) -> None:
    """[PRV6]"""
    seconds = 0.5 if ended_by == "the time" else 600.0
    node = start({"outlives_halt": "right", "halt_seconds": seconds}).wait_until_ready()
    node.order("left", "halt")
    node.wait_for_line("halted", "left", reason="the toys are outdated")
    if ended_by == "a signal":
        node.wait(lambda: len(node.stop_order()) == 2, "the end of the others")
        node.order("right", "debug")
        node.wait_for_line("toy acts", "right", action="debug")
        node.program.send_signal(signal.SIGTERM)
    code, text = node.wait_for_exit()
    assert (code, text) == (75, "rollup-node: process left halted the node: the toys are outdated\n")
    assert node.stop_order()[-1] == "right"


def title_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def test_processes_json_is_current(running: ToyNode) -> None:
    processes = running.processes()
    assert list(processes) == ["supervisor", "sweeper", "left", "right", "copy-0", "copy-1"]
    assert processes["supervisor"]["pid"] == running.program.pid
    for name, entry in processes.items():
        # A process is in the file before it has named itself.
        running.wait(partial(lambda pid, title: title_of(pid) == title, entry["pid"], f"rollup-node: {name}"), name)
        assert set(entry) == {"role", "copy", "pid", "incarnation", "started", "start_ticks"}
        assert abs(entry["started"] - time.time()) < 60
    os.kill(processes["copy-0"]["pid"], signal.SIGSTOP)
    os.kill(processes["left"]["pid"], signal.SIGKILL)
    left, copy = (processes[name]["incarnation"] + 1 for name in ("left", "copy-0"))
    running.wait_for_line("process started", name="left", incarnation=left)
    assert running.processes()["left"]["incarnation"] == left
    running.wait_for_line("process started", name="copy-0", incarnation=copy)


@pytest.mark.fault("F56")
def test_hanging_processes_are_replaced(running: ToyNode) -> None:
    running.order("left", "spin")
    running.order("right", "block")
    before = running.processes()
    os.kill(before["copy-0"]["pid"], signal.SIGSTOP)
    for name, reason in (
        ("left", "no heartbeat during"),
        ("right", "while blocked"),
        ("copy-0", "stopped by a signal for"),
    ):
        assert reason in running.wait_for_line("process hangs", "supervisor", name=name)["reason"]
        running.wait_for_line("process died", "supervisor", name=name)
        again = before[name]["incarnation"] + 1
        running.wait_for_line("process started", "supervisor", name=name, incarnation=again)
    running.wait_for_restart("right", before["right"]["incarnation"] + 1)
    assert any(b"toy_stages.py" in line for line in running.raw), "the traceback shows where it hung"
    assert not running.logged("process hangs", name="copy-1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_reverse_order(start: StartNode, number: signal.Signals) -> None:
    node = start().wait_until_ready()
    if number == signal.SIGINT:
        os.killpg(node.program.pid, number)
    else:
        node.program.send_signal(number)
    assert node.wait_for_exit() == (0, "")
    order = node.stop_order()
    assert set(order[:2]) == {"copy-0", "copy-1"}
    assert order[2:] == ["right", "left"]
    assert {line["process"] for line in node.logged("toy closed")} == PROCESSES
    closed = [line["process"] for line in node.logged("stopped")]
    assert len(closed) == 4, "every last line comes through"
    assert not node.logged("process died")


def test_hangup_is_ignored_under_nohup(running: ToyNode) -> None:
    running.program.send_signal(signal.SIGHUP)
    running.wait_for_exchange()
    assert running.program.poll() is None and not running.logged("received signal")


def test_a_signal_that_comes_again_at_once_is_the_same_one(start: StartNode) -> None:
    """[LIF1] GNU timeout sends it to the process and to its group."""
    node = start({"refuse_to_stop": ["right"], "stop_timeout": {"right": 1.5}}).wait_until_ready()
    node.program.send_signal(signal.SIGTERM)
    node.wait_for_line("process ended", name="copy-0")
    node.program.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == (0, "")
    assert len(node.logged("received signal")) == 1
    (killed,) = node.logged("killing process")
    assert (killed["name"], killed["reason"], killed["code"]) == ("right", "did not stop within 1.5 s", "SLOW")
    assert node.stop_order()[2:] == ["right", "left"] and len(node.logged("toy closed")) == 3


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_a_lack_of_descriptors_ends_no_node(start: StartNode) -> None:
    """[LIF27] A fork that fails is tried again with growing pauses, and is no death of the process."""
    node = start({"restart_policy": {"deaths": 1}}).wait_until_ready()
    processes, supervisor_id = node.processes(), node.program.pid
    limits = resource.prlimit(supervisor_id, resource.RLIMIT_NOFILE)
    resource.prlimit(supervisor_id, resource.RLIMIT_NOFILE, (3, limits[1]))
    for name in ("right", "sweeper"):
        os.kill(processes[name]["pid"], signal.SIGKILL)
    pauses = [node.wait_for_line("cannot fork", name="right", count=count)["again_in_s"] for count in (1, 2, 3)]
    assert pauses == [1.0, 2.0, 4.0]
    assert node.wait_for_line("cannot fork", name="sweeper")["code"] == "HOST-LIMIT"
    before = open_files(supervisor_id)
    resource.prlimit(supervisor_id, resource.RLIMIT_NOFILE, limits)
    node.wait_for_line("process started", name="right", count=2)
    node.wait_for_exchange()
    node.wait(lambda: node.processes().get("sweeper"), "the sweeper")
    assert open_files(supervisor_id) <= before + 2, "failed forks leave no descriptor open"
    node.stop()


@pytest.mark.fault("F59")
def test_the_whole_stop_is_bounded(start: StartNode) -> None:
    node = start(
        {"refuse_to_stop": ["copy", "right", "left"], "restart_policy": {"stop_total": 0.5}}
    ).wait_until_ready()
    node.program.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == (0, "")
    assert len(node.logged("killing process", reason="the stop took more than 0.5 s")) == 4


@pytest.mark.fault("F59")
def test_a_second_signal_kills_all(start: StartNode) -> None:
    node = start({"refuse_to_stop": ["copy", "right", "left"]}).wait_until_ready()
    node.program.send_signal(signal.SIGTERM)
    node.wait_for_line("received signal")
    node.program.send_signal(signal.SIGINT)
    assert node.wait_for_exit() == (0, "")
    kills = node.logged("killing process", reason="a second signal", lvl="info")
    assert len(kills) == 4 and not any("code" in line for line in kills)


@pytest.mark.fault("F59")
def test_a_signal_during_the_start_ends_it(start: StartNode) -> None:
    for pause in (0.0, 0.01, 0.03):
        node = start()
        node.wait_for_line("starting node")
        time.sleep(pause)
        node.program.send_signal(signal.SIGTERM)
        assert node.wait_for_exit() == (0, "")


def test_a_signal_before_the_start_leaves_nothing(start: StartNode) -> None:
    for pause in (0.1, 0.2, 0.3):
        node = start(fresh=True)
        time.sleep(pause)
        node.program.send_signal(signal.SIGTERM)
        assert node.wait_for_exit() in ((0, ""), (-signal.SIGTERM, ""))


def test_a_signal_while_the_node_stops_for_a_new_start_ends_it(start: StartNode) -> None:
    """[UPG26] The node would start again though it was told to stop."""
    node = start({"refuse_to_stop": ["right"], "stop_timeout": {"right": 1.0}}).wait_until_ready()
    node.order("left", "restart")
    node.wait_for_line("process ended", name="copy-0")
    node.program.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == (0, "")


def test_a_signal_between_two_starts_ends_the_second(start: StartNode, leftovers: Leftovers) -> None:
    node = start({"again": True}).wait_until_ready()
    node.order("left", "restart")
    node.wait((leftovers.folder / "between").exists)
    node.program.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == (0, "")
    assert len(node.logged("starting node")) == 2 and len(node.logged("received signal")) == 1


def test_a_process_that_keeps_dying_ends_the_node(start: StartNode) -> None:
    node = start({"restart_policy": {"deaths": 2}}).wait_until_ready()
    for life in (1, 2, 3):
        node.wait_for_line("toy started", "right", count=life)
        node.order("right", "crash")
    code, text = node.wait_for_exit()
    assert code == 3
    assert text == ("rollup-node: process right died 3 times within 60 s, last by exit code 1: see its log lines\n")
    assert node.logged("process keeps dying", "supervisor", name="right", deaths=3)


@needs_root
def test_too_few_processes_end_the_start_in_one_line(start: StartNode) -> None:
    """[LIF30] ZeroMQ aborts without its threads."""
    code, text = start({"tasks": 20}).wait_for_exit()
    assert code == ExitCode.SETUP and text.count("\n") == 1
    assert text.startswith("rollup-node: the node needs 24 processes and threads, and the limit leaves ")


def test_a_removed_socket_is_bound_again(running: ToyNode) -> None:
    """[LIF29] A client that starts later finds the server again."""
    folder = running.directory / "ipc"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    running.wait_for_line("something has removed files of sockets in the runtime directory: they are bound again")
    running.wait_for_exchange()
    entry = running.processes()["right"]
    os.kill(entry["pid"], signal.SIGKILL)
    running.wait_for_restart("right", entry["incarnation"] + 1)


@pytest.mark.fault("F57")
def test_two_nodes_cannot_share_a_directory(running: ToyNode, start: StartNode) -> None:
    """The second one imports its modules itself, as a program does."""
    code, text = start({"runtime_dir": str(running.directory)}, fresh=True).wait_for_exit()
    assert code == 1
    assert text == (
        f"rollup-node: directory {running.directory} is in use by another node (pid {running.program.pid}): "
        "stop it or give another one\n"
    )


def test_a_module_that_cannot_be_loaded_ends_the_start(start: StartNode) -> None:
    node = start({"build": "absent_module:build"})
    assert node.wait_for_exit() == (
        1,
        "rollup-node: cannot load what process left needs: No module named 'absent_module'\n",
    )


def test_a_stalled_reader_of_the_log_blocks_no_process(start: StartNode, leftovers: Leftovers) -> None:
    read, write = os.pipe()
    node = start(stdout=write)
    os.close(write)
    node.wait_for_exchange()
    for role in ("left", "copy"):
        node.order(role, "chatter")
    node.wait((leftovers.folder / "chattered").exists, "the chatter ends")
    node.wait_for_exchange()
    node.program.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == (0, "")
    with os.fdopen(read, "rb") as rest:
        lines = rest.read().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines[:-1]), "no line is broken"


def test_a_suspended_node_kills_no_process(running: ToyNode) -> None:
    os.killpg(running.program.pid, signal.SIGSTOP)
    time.sleep(1.8)
    os.killpg(running.program.pid, signal.SIGCONT)
    # One request is sent every 50 ms: 20 take longer than two checks of the watchdog.
    running.wait_for_exchange(20)
    assert not running.logged("process hangs")


def test_shared_memory_that_is_refused_ends_the_start_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(supervisor, "Supervisor", refuse)
    monkeypatch.setattr(process_control, "raise_descriptor_limit", lambda: 10_000)
    directory = tmp_path / "run"
    settings = NodeSettings(version="v1", runtime_dir=directory)
    assert supervisor.run_node([], settings) == ExitCode.SETUP
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rollup-node: cannot make the shared memory of the processes: File too large: raise")
    assert list(directory.glob("*")) == []
