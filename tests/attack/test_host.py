"""The supervisor and the node's files against other users and processes of the same host: foreign and writable folders,
planted links and process lists, starvation of CPU time, few file descriptors, and a stop during a long load."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.procfs import read_stat
from rollup_node.node.system.runtime_dir import open_runtime_directory
from tests.support.foreign_user import FOREIGN_USER, needs_root
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.toy_harness import PROCESSES, StartNode, toy_nodes
from tests.support.timing.slowness import within

STOP_SECONDS = 10.0
HOG = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@contextlib.contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that is killed at the end."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def start(leftovers: Leftovers) -> Iterator[StartNode]:
    """Start toy nodes, which must leave nothing behind."""
    with toy_nodes(leftovers) as start_one:
        yield start_one


@pytest.fixture
def runtime_dir(leftovers: Leftovers) -> Path:
    """Return an existing folder of this user that others cannot write to."""
    folder = leftovers.folder / "run"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that is not the node's."""
    with running(["sleep", "600"], cwd="/") as process:
        yield process


def plant_process_list(folder: Path, pid: int) -> None:
    """Write a processes.json that names a process with its true start time, which everybody can read."""
    stat = read_stat(pid)
    assert stat is not None
    entry = {"role": "l1", "copy": 0, "pid": pid, "incarnation": 1, "started": 0.0, "start_ticks": stat.start_ticks}
    (folder / "processes.json").write_text(json.dumps([entry]))


def refusal(folder: Path) -> str:
    """Return the line with which a node does not start in that folder."""
    with pytest.raises(SetupError) as caught:
        open_runtime_directory(folder, longest_socket=20)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_that_others_may_write_to_is_refused(runtime_dir: Path, victim: subprocess.Popen[bytes]) -> None:
    """Whoever can write to it could name any process of this user as one of the node's."""
    plant_process_list(runtime_dir, victim.pid)
    for mode in (0o777, 0o1777, 0o770):
        runtime_dir.chmod(mode)
        text = refusal(runtime_dir)
        assert victim.poll() is None, "the node killed a foreign process"
        assert f"others may write to it (mode {mode:o})" in text and "chmod go-w" in text


@needs_root
def test_a_folder_of_another_user_is_refused(runtime_dir: Path, victim: subprocess.Popen[bytes]) -> None:
    plant_process_list(runtime_dir, victim.pid)
    os.chown(runtime_dir, FOREIGN_USER, FOREIGN_USER)
    text = refusal(runtime_dir)
    assert victim.poll() is None, "the node killed a foreign process"
    assert f"it belongs to uid {FOREIGN_USER}, this node runs as uid 0" in text


@needs_root
@pytest.mark.parametrize("is_list_foreign", [True, False])
def test_foreign_process_lists_and_processes_are_ignored(runtime_dir: Path, is_list_foreign: bool) -> None:
    """A list of another user; or one from before a change of the node's user, or from before a reboot."""
    with running(["sleep", "600"], cwd="/", user=None if is_list_foreign else FOREIGN_USER) as foreign:
        plant_process_list(runtime_dir, foreign.pid)
        if is_list_foreign:
            os.chown(runtime_dir / "processes.json", FOREIGN_USER, FOREIGN_USER)
        open_runtime_directory(runtime_dir, longest_socket=20).remove()
        assert foreign.poll() is None, "the node killed a foreign process"


@pytest.mark.parametrize("name", ["ipc", "metrics"])
def test_a_linked_folder_is_refused_and_its_target_unchanged(
    leftovers: Leftovers, runtime_dir: Path, name: str
) -> None:
    target = leftovers.folder / "target"
    target.mkdir(mode=0o755)
    for file in ("foreign.sock", "foreign.prom"):
        (target / file).touch()
    (runtime_dir / name).symlink_to(target)
    text = refusal(runtime_dir)
    assert sorted(os.listdir(target)) == ["foreign.prom", "foreign.sock"]
    assert target.stat().st_mode & 0o777 == 0o755
    assert "is a symbolic link" in text and f"{runtime_dir}/{name}" in text


def test_a_linked_runtime_directory_or_lock_is_refused(leftovers: Leftovers, runtime_dir: Path) -> None:
    link, precious = leftovers.folder / "link", leftovers.folder / "precious"
    link.symlink_to(runtime_dir)
    assert "is a symbolic link" in refusal(link)
    assert list(runtime_dir.iterdir()) == []
    precious.write_text("precious")
    (runtime_dir / "lock").hardlink_to(precious)
    assert "other names" in refusal(runtime_dir)
    assert precious.read_text() == "precious"


def test_planted_links_are_not_written_through(start: StartNode, leftovers: Leftovers, runtime_dir: Path) -> None:
    """Links from a time when others could write to the folder, under the names of files that the node writes."""
    precious = leftovers.folder / "precious"
    precious.write_text("precious")
    (runtime_dir / "metrics").mkdir(mode=0o700)
    for name in ("processes.json.new", "processes.json", "aside.json", "aside.json.new"):
        (runtime_dir / name).symlink_to(precious)
    (runtime_dir / "state").mkdir(mode=0o700)
    for name in ("sequencer.state", "sequencer.state.new"):
        (runtime_dir / "state" / name).symlink_to(precious)
    for name in ("supervisor.prom.new", "supervisor.prom", "left.prom.new", "left.prom"):
        (runtime_dir / "metrics" / name).symlink_to(precious)
    node = start({"runtime_dir": str(runtime_dir)}).wait_until_ready()
    node.wait(lambda: (runtime_dir / "metrics" / "left.prom").is_file(), "the metrics of a process")
    assert not any(path.is_symlink() for path in runtime_dir.rglob("*"))
    node.stop()
    assert precious.read_text() == "precious"


def test_a_blocked_process_is_killed_and_starved_ones_are_not(start: StartNode) -> None:
    """For 4 s three processes get what CPU time a busy loop on their core leaves them, with short sleeps between: they
    are found asleep again and again, without a heartbeat, but were asleep for a quarter of the time alone. Meanwhile
    another one blocks."""
    core = min(os.sched_getaffinity(0))
    node = start({"restart_policy": {"cpu": 30.0, "blocked": 1.5}}).wait_until_ready()
    starved = ("left", "copy", "copy")
    with running([sys.executable, "-c", HOG, str(core)]):
        node.order("right", "block")
        for number, role in enumerate(starved, 1):
            node.order(role, f"starve {core}")
            node.wait_for_line("toy acts", action=f"starve {core}", count=number)
        assert "while blocked" in node.wait_for_line("process hangs", "supervisor", name="right")["reason"]
        node.wait_for_line("toy was starved", count=len(starved))
    assert {line["name"] for line in node.logged("process hangs")} == {"right"}
    node.wait_for_restart("right")
    processes = node.processes()
    assert {name: processes[name]["incarnation"] for name in PROCESSES} == dict.fromkeys(PROCESSES, 1) | {"right": 2}
    node.stop()


@pytest.mark.fault("F59")
def test_a_signal_during_a_long_load_stops_the_node(start: StartNode) -> None:
    """The KZG setup takes seconds in C, and minutes on a starved machine; here the load takes a minute at least."""
    node = start({"stop_timeout": {"right": 0.3}, "restart_policy": {"cpu": 100.0, "blocked": 100.0}})
    node.wait_until_ready()
    node.order("right", "compute")
    node.wait_for_line("toy acts")
    sent = time.monotonic()
    node.program.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == (0, "")
    assert within(time.monotonic() - sent, STOP_SECONDS)


def descriptor_limits(pid: int) -> tuple[int, int]:
    """Return the soft and the hard limit of open files of a process."""
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)


def limit_descriptors(soft: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_few_descriptors_end_the_start_with_the_number_needed(start: StartNode) -> None:
    node = start(fresh=True, preexec_fn=lambda: limit_descriptors(32, 32))
    code, text = node.wait_for_exit()
    assert code == 1 and text.count("\n") == 1 and "raise the hard limit" in text
    needed = int(text.partition("needs ")[2].split()[0])
    enough = start(fresh=True, preexec_fn=lambda: limit_descriptors(needed // 2, needed)).wait_until_ready()
    pids = [entry["pid"] for entry in enough.processes().values()]
    assert {descriptor_limits(pid) for pid in pids} == {(needed, needed)}, "the hard limit"
    assert max(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids) <= needed // 2
    enough.stop()
