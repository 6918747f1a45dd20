"""What forked processes inherit, and how their end is described."""

import contextlib
import errno
import gc
import os
import signal
import sys
from pathlib import Path

import pytest

from rollup_node.node.supervisor.child_processes import become_child, exit_text, freeze_heap, preload
from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.node.system.process_table import ProcessSpec
from tests.support.processes.denied_calls import PIDFD_OPEN, PIDFD_SEND_SIGNAL, needs_filter
from tests.support.processes.toy_harness import StartNode


def open_files(pid: int) -> list[str]:
    """Return the files that the descriptors of a process refer to.

    It opens and closes its metrics file all the time."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(path))
    return links


@pytest.mark.parametrize(("dies_with_parent", "code"), [(True, ExitCode.SETUP), (False, 7)])
def test_a_supervisor_that_died_at_once_takes_no_child_with_it_that_outlives_it(
    dies_with_parent: bool, code: int
) -> None:
    """The sweeper has to clean up even when it first runs after the supervisor's death."""
    child = os.fork()
    if child == 0:
        try:
            become_child(os.getpid(), (), None, dies_with_parent)  # its parent has another pid
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code


def test_children_have_no_descriptor_of_others(start: StartNode) -> None:
    node = start().wait_until_ready()
    processes = node.processes()
    for name in ("left", "copy-1"):
        links = open_files(processes[name]["pid"])
        shared = [link for link in links if link.startswith("/memfd:")]
        assert len(shared) == 6, "the liveness table, the log level, and an arena per process"
        pipes = {link for link in links if link.startswith("pipe:")}
        assert len(pipes) == 1, "its own log pipe"
        assert not [link for link in links if "lock" in link]
    sweeper = open_files(processes["sweeper"]["pid"])
    assert sorted(sweeper)[:3] == ["/dev/null"] * 3
    assert len(sweeper) == 4
    assert len(list(Path(f"/proc/{processes['supervisor']['pid']}/task").iterdir())) == 1
    node.stop()


@needs_filter
@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_no_process_needs_a_pidfd(start: StartNode, error: int) -> None:
    """[LIF28] Docker's profile before 20.10.10 refuses it, kernels before 5.3 and sandboxes do not have it."""
    node = start({"denied": {str(call): error for call in (PIDFD_OPEN, PIDFD_SEND_SIGNAL)}}).wait_until_ready()
    for name in ("right", "sweeper"):
        os.kill(node.processes()[name]["pid"], signal.SIGKILL)
        node.wait_for_line("process died", "supervisor", name=name, reason="signal SIGKILL")
        node.wait_for_entry(name, 2)
    node.wait_for_exchange()
    node.stop()


def test_adopted_children_are_collected(start: StartNode) -> None:
    """[LIF28] The first process of a container has the children of the dead."""
    node = start({"adopts": True}).wait_until_ready()
    node.order("left", "orphan")
    orphan = int(node.wait(lambda: (node.folder / "orphan").exists() and (node.folder / "orphan").read_text()))
    node.wait(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan has ended and is no zombie")
    node.stop()


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exit code 0"), (70, "exit code 70"), (-9, "signal SIGKILL"), (-34, "signal SIGRTMIN"), (-60, "signal 60")],
)
def test_exit_codes_as_text(code: int, text: str) -> None:
    assert exit_text(code) == text


def test_modules_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("colorsys", "sndhdr", "wave"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = ProcessSpec("x", "colorsys:rgb_to_hls", None, preload=("wave",))
    preload(spec)
    assert {"colorsys", "wave"} <= set(sys.modules)


def test_the_heap_is_excluded_from_collection() -> None:
    before, kept = gc.get_freeze_count(), [[number] for number in range(1000)]
    freeze_heap()
    assert gc.get_freeze_count() - before >= len(kept)
