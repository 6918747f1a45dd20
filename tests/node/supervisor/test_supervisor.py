"""The supervisor with toy processes, started as a program, and whatever can befall it."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.supervisor.harness import ROWS, Line, Node


@pytest.fixture
def start(leftovers: Any) -> Iterator[Callable[..., Node]]:
    """Starts toy nodes; nothing of them may be left."""
    nodes: list[Node] = []

    def start_one(settings: Line | None = None, **options: Any) -> Node:
        nodes.append(Node(leftovers, settings or {}, **options))
        return nodes[-1]

    yield start_one
    for node in nodes:
        if node.program.poll() is None:
            node.program.kill()
        node.program.communicate()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_every_process_may_be_killed(start: Callable[..., Node]) -> None:
    node = start().ready()
    for name in ("left", "right", "hand-1", "sweeper"):
        before = node.processes()[name]
        os.kill(before["pid"], signal.SIGKILL)
        node.hear("process died", "supervisor", name=name, why="signal SIGKILL")
        if name != "sweeper":
            node.restarted(name)
        after = node.wait(lambda n=name: (node.processes().get(n) or {}).get("incarnation") == 2, name)
        assert after
        assert node.processes()[name]["pid"] != before["pid"]
    assert node.learnt().endswith(" 100000")
    node.stop()


def test_processes_json_is_current(start: Callable[..., Node]) -> None:
    node = start().ready()
    processes = node.processes()
    assert list(processes) == ["supervisor", "sweeper", "left", "right", "hand-0", "hand-1"]
    assert processes["supervisor"]["pid"] == node.program.pid
    for name, entry in processes.items():
        title = Path(f"/proc/{entry['pid']}/cmdline").read_bytes().rstrip(b"\0").decode()
        assert title == f"rollup-node: {name}"
        assert set(entry) == {"role", "copy", "pid", "incarnation", "started", "start_ticks"}
        assert abs(entry["started"] - time.time()) < 60
    os.kill(processes["hand-0"]["pid"], signal.SIGSTOP)
    os.kill(processes["left"]["pid"], signal.SIGKILL)
    node.hear("process started", name="left", incarnation=2)
    assert node.processes()["left"]["incarnation"] == 2
    node.hear("process started", name="hand-0", incarnation=2)
    node.stop()


def open_files(pid: int) -> list[str]:
    """What the descriptors of a process stand for; it opens and closes its metrics file all the time."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(path))
    return links


def test_children_hold_no_descriptor_of_others(start: Callable[..., Node]) -> None:
    node = start().ready()
    processes = node.processes()
    for name in ("left", "hand-1"):
        links = open_files(processes[name]["pid"])
        shared = [link for link in links if link.startswith("/memfd:")]
        assert len(shared) == 5, "the board, and an arena per process"
        pipes = {link for link in links if link.startswith("pipe:")}
        assert len(pipes) == 1, "its own log pipe"
        assert not [link for link in links if "lock" in link]
    sweeper = open_files(processes["sweeper"]["pid"])
    assert sorted(sweeper)[:3] == ["/dev/null"] * 3
    assert len(sweeper) == 4
    assert len(list(Path(f"/proc/{processes['supervisor']['pid']}/task").iterdir())) == 1
    node.stop()


def test_hanging_processes_are_replaced(start: Callable[..., Node]) -> None:
    node = start().ready()
    node.order("left", "spin")
    node.order("right", "block")
    stopped = node.processes()["hand-0"]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    for name, why in (
        ("left", "no heartbeat during"),
        ("right", "while blocked"),
        ("hand-0", "stopped by a signal for"),
    ):
        assert why in node.hear("process hangs", "supervisor", name=name)["why"]
        node.hear("process died", "supervisor", name=name)
        node.hear("process started", "supervisor", name=name, incarnation=2)
    node.restarted("right")
    assert any(b"toy_stages.py" in line for line in node.raw), "where it hung is shown"
    assert not node.said("process hangs", name="hand-1")
    node.stop()


def stop_order(node: Node) -> list[str]:
    return [line["name"] for line in node.said("process ended", "supervisor")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_in_reverse_order(start: Callable[..., Node], number: signal.Signals) -> None:
    node = start().ready()
    if number == signal.SIGINT:
        os.killpg(node.program.pid, number)
    else:
        node.program.send_signal(number)
    assert node.end() == (0, "")
    order = stop_order(node)
    assert set(order[:2]) == {"hand-0", "hand-1"}
    assert order[2:] == ["right", "left"]
    assert {line["process"] for line in node.said("toy closes")} == ROWS
    closed = [line["process"] for line in node.said("stopped")]
    assert len(closed) == 4, "every last line comes through"
    assert not node.said("process died")


def test_a_whole_group_asked_at_once_ends_well(start: Callable[..., Node]) -> None:
    node = start().ready()
    os.killpg(node.program.pid, signal.SIGTERM)
    assert node.end() == (0, "")
    assert len(node.said("process started", "supervisor")) == 4


def test_hangup_is_ignored_under_nohup(start: Callable[..., Node]) -> None:
    node = start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)).ready()
    node.program.send_signal(signal.SIGHUP)
    node.restarted("left", 1)
    node.stop()


def test_who_does_not_stop_is_killed_at_its_bound(start: Callable[..., Node]) -> None:
    node = start({"refuse_to_stop": ["right"], "stop": {"right": 0.4}}).ready()
    began = time.monotonic()
    node.program.send_signal(signal.SIGTERM)
    assert node.end() == (0, "")
    assert time.monotonic() - began > 0.4
    assert stop_order(node)[2:] == ["right", "left"]
    assert node.said("killing process", name="right", why="did not stop within 0.4 s")
    assert len(node.said("toy closes")) == 3


def test_the_whole_stop_is_bounded(start: Callable[..., Node]) -> None:
    node = start({"refuse_to_stop": ["hand", "right", "left"], "limits": {"stop_total": 0.5}}).ready()
    node.program.send_signal(signal.SIGTERM)
    assert node.end() == (0, "")
    assert len(node.said("killing process", why="the stop took more than 0.5 s")) == 4


def test_a_second_signal_kills_all(start: Callable[..., Node]) -> None:
    node = start({"refuse_to_stop": ["hand", "right", "left"]}).ready()
    node.program.send_signal(signal.SIGTERM)
    node.hear("signal")
    node.program.send_signal(signal.SIGINT)
    assert node.end() == (0, "")
    assert len(node.said("killing process", why="a second signal")) == 4


def test_a_signal_during_the_start_ends_it(start: Callable[..., Node]) -> None:
    for pause in (0.0, 0.01, 0.03):
        node = start()
        node.hear("node starts")
        time.sleep(pause)
        node.program.send_signal(signal.SIGTERM)
        assert node.end() == (0, "")


def test_a_signal_before_the_start_leaves_nothing(start: Callable[..., Node]) -> None:
    for pause in (0.1, 0.18, 0.22, 0.26, 0.3):
        node = start()
        time.sleep(pause)
        node.program.send_signal(signal.SIGTERM)
        assert node.end() in ((0, ""), (-signal.SIGTERM, ""))


def test_a_process_that_keeps_dying_ends_the_node(start: Callable[..., Node]) -> None:
    node = start({"limits": {"deaths": 2}}).ready()
    for life in (1, 2, 3):
        node.hear("toy starts", "right", count=life)
        node.order("right", "crash")
    code, text = node.end()
    assert code == 3
    assert text == ("rollup-node: process right died 3 times within 60 s, last by exit code 1: see its log lines\n")
    assert node.said("a process keeps dying", "supervisor", name="right", deaths=3)


def test_the_traceback_of_a_bug_is_in_the_log(start: Callable[..., Node]) -> None:
    node = start().ready()
    node.order("left", "crash")
    line = node.hear("a bug ends this process", "left")
    assert line["trace"].startswith("Traceback")
    assert "ValueError: a toy's bug" in line["trace"]
    node.restarted("left")
    node.stop()


def test_a_critical_error_stops_the_node(start: Callable[..., Node]) -> None:
    node = start().ready()
    node.order("left", "critical")
    code, text = node.end()
    assert code == 70
    assert text == "rollup-node: process left met an error that nothing can repair: see its last log lines\n"
    assert node.said("critical error", "left", error="a toy contradicts itself")
    assert stop_order(node)[2:] == ["right"]


def test_temporary_errors_and_resets_go_on(start: Callable[..., Node]) -> None:
    node = start().ready()
    node.order("left", "temporary")
    node.hear("toy reports", "left", problems="obey: the toy endpoint is away")
    node.order("right", "reset")
    node.hear("toy resets", "right", why="the toy ground moved")
    node.hear("toy reports", "left", problems="none")
    node.hear("recovered", "left", task="obey", failed_attempts=1)
    assert not node.said("process died")
    node.stop()


def test_a_killed_supervisor_leaves_nothing(start: Callable[..., Node], leftovers: Any) -> None:
    node = start().ready()
    directory, processes = node.directory, node.processes()
    os.kill(processes["hand-0"]["pid"], signal.SIGSTOP)
    node.order("left", "spin")
    node.hear("obeys", "left")
    node.program.kill()
    node.program.wait()
    assert leftovers.wait_until_gone() == []
    assert not directory.exists()


@pytest.mark.parametrize("pause", [0.0, 0.003, 0.01, 0.03])
def test_a_supervisor_killed_while_it_starts_leaves_nothing(
    start: Callable[..., Node], leftovers: Any, pause: float
) -> None:
    node = start({"check": ""})
    node.hear("node starts")
    time.sleep(pause)
    node.program.kill()
    node.program.wait()
    assert leftovers.wait_until_gone() == []


def test_a_killed_supervisor_leaves_a_given_directory(start: Callable[..., Node], leftovers: Any) -> None:
    given = leftovers.folder / "run"
    given.mkdir()
    node = start({"runtime_dir": str(given)}).ready()
    node.program.kill()
    node.program.wait()
    assert leftovers.wait_until_gone() == []
    assert list(given.iterdir()) == []


def test_a_node_killed_with_its_sweeper_is_swept_by_the_next(start: Callable[..., Node], leftovers: Any) -> None:
    given = leftovers.folder / "run"
    node = start({"runtime_dir": str(given), "limits": {"stopped": 60.0}}).ready()
    sweeper = node.processes()["sweeper"]["pid"]
    os.kill(sweeper, signal.SIGSTOP)
    node.program.kill()
    node.program.wait()
    os.kill(sweeper, signal.SIGKILL)
    assert (given / "processes.json").exists()
    again = start({"runtime_dir": str(given)}).ready()
    again.stop()


def test_two_nodes_cannot_share_a_directory(start: Callable[..., Node], leftovers: Any) -> None:
    given = leftovers.folder / "run"
    node = start({"runtime_dir": str(given)}).ready()
    code, text = start({"runtime_dir": str(given)}).end()
    assert code == 1
    assert text == (
        f"rollup-node: directory {given} is in use by another node (pid {node.program.pid}): "
        "stop it or give another one\n"
    )
    node.stop()


def test_a_check_that_fails_ends_the_start_in_one_line(start: Callable[..., Node]) -> None:
    node = start({"check": "wrong chain id 5,\nexpected 7: check --l2"})
    assert node.end() == (1, "rollup-node: wrong chain id 5, expected 7: check --l2\n")
    assert not node.said("process started")
    assert not [line for line in node.lines if "trace" in line]


def test_a_bug_in_the_check_ends_the_start(start: Callable[..., Node]) -> None:
    node = start({"check": "bug"})
    code, text = node.end()
    assert code == 1
    assert text == "rollup-node: the check before the start failed by a bug (ValueError): see the log\n"
    assert "ValueError: a bug in the check" in node.said("the check before the start failed by a bug")[0]["trace"]


def test_the_rows_wait_for_the_check_and_a_signal_ends_it(start: Callable[..., Node]) -> None:
    node = start({"check": "", "check_seconds": 30})
    node.hear("node starts")
    time.sleep(0.3)
    assert not node.said("process started")
    node.stop()


def test_a_signal_during_the_check_does_not_count_as_done(start: Callable[..., Node]) -> None:
    node = start({"job": 0, "check": "", "check_seconds": 30})
    node.wait((node.folder / "checks").exists, "the check to begin")
    node.program.send_signal(signal.SIGTERM)
    code, _ = node.end()
    assert code == 130 and node.raw == []


@pytest.mark.parametrize("code", [0, 5])
def test_a_one_shot_process_ends_the_node_with_its_code(start: Callable[..., Node], code: int) -> None:
    node = start({"job": code})
    node.order("job", "finish")
    ended, text = node.end()
    assert ended == code
    assert node.raw == [b"the result\n"], "stdout has nothing but the result"
    *log, last = text.splitlines()
    lines = [json.loads(line) for line in (log if code else text.splitlines())]
    assert next(line["name"] for line in lines if line["msg"] == "process ended") == "job"
    assert code == 0 or last == "rollup-node: process job ended with exit code 5: see its last log lines"


def test_what_cannot_be_loaded_ends_the_start(start: Callable[..., Node]) -> None:
    node = start({"build": "absent_module:build"})
    assert node.end() == (
        1,
        "rollup-node: cannot load what process left needs: No module named 'absent_module'\n",
    )


def test_a_stalled_reader_of_the_log_stops_nobody(start: Callable[..., Node], leftovers: Any) -> None:
    read, write = os.pipe()
    node = start(stdout=write)
    os.close(write)
    node.wait(lambda: node.learnt() != "", "the toys to talk")
    for role in ("left", "hand"):
        node.order(role, "chatter")
    node.wait((leftovers.folder / "chattered").exists, "the chatter to end")
    learnt = node.learnt()
    node.wait(lambda: node.learnt() != learnt, "the toys to talk on")
    node.program.send_signal(signal.SIGTERM)
    assert node.end() == (0, "")
    with os.fdopen(read, "rb") as rest:
        lines = rest.read().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines[:-1]), "no line is broken"


def test_prints_and_faults_reach_the_log(start: Callable[..., Node]) -> None:
    node = start().ready()
    node.order("left", "print")
    for line in (b"printed\n", b"by hand\n", b"written past Python\n"):
        node.wait(lambda text=line: text in node.raw, line.decode())
    os.kill(node.processes()["left"]["pid"], signal.SIGUSR2)
    node.wait(lambda: any(line.startswith(b"Current thread") for line in node.raw), "the stack")
    node.stop()


def test_metrics_files_are_written_and_go_with_a_death(start: Callable[..., Node]) -> None:
    node = start().ready()
    folder = node.directory / "metrics"
    names = {f"{name}.prom" for name in (*ROWS, "supervisor")}
    node.wait(lambda: {path.name for path in folder.glob("*.prom")} == names, "the files")
    shown = ["op_node_default_up 1.0", 'op_node_default_info{version="toy"} 1.0']
    for name in ROWS:
        of = f'{{process="{name}"}}'
        shown += [f"process_up{of} 1.0", f"process_incarnation{of} 1.0"]
        shown += [f"process_resident_memory_bytes{of}", f"process_heartbeat_age_seconds{of} 0."]
    for line in shown:
        node.wait(lambda line=line: line in (folder / "supervisor.prom").read_text(), line)
    assert "activity_problems" in (folder / "left.prom").read_text()
    os.kill(node.processes()["hand-0"]["pid"], signal.SIGKILL)
    node.wait(
        lambda: 'process_restarts_total{process="hand-0"} 1.0' in (folder / "supervisor.prom").read_text(), "restarts"
    )
    node.stop()


def test_a_supervisor_that_slept_kills_nobody(start: Callable[..., Node]) -> None:
    node = start().ready()
    os.killpg(node.program.pid, signal.SIGSTOP)
    time.sleep(1.8)
    os.killpg(node.program.pid, signal.SIGCONT)
    learnt = node.learnt()
    node.wait(lambda: node.learnt() != learnt, "the toys to talk")
    time.sleep(0.6)
    assert not node.said("process hangs")
    node.stop()
