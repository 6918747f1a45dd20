"""The runtime directory: created, locked, swept, removed."""

import errno
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.procfs import read_stat
from rollup_node.node.system.runtime_dir import (
    DirectoryInUseError,
    RuntimeDirectory,
    open_runtime_directory,
    read_processes,
    remove,
    runtime_path,
    take_lock,
)
from rollup_node.stages.io.files.private_files import UnsafeFileError
from rollup_node.stages.io.task import ChainAside, ProcessEntry
from tests.support.processes.leftovers import Leftovers

SHORT = 20


@pytest.fixture
def folder(leftovers: Leftovers) -> Path:
    """Return a folder with a short path."""
    return leftovers.folder


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def entry(pid: int, start_ticks: int | None = None) -> ProcessEntry:
    if start_ticks is None:
        stat = read_stat(pid)
        assert stat is not None
        start_ticks = stat.start_ticks
    return ProcessEntry("l1", 0, pid, 1, time.time(), start_ticks)


def abandon(directory: RuntimeDirectory) -> None:
    """Releases the lock without a sweep, as a killed node does."""
    os.close(directory.lock)


def test_a_private_directory_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    directory = open_runtime_directory(runtime_path(), SHORT)
    assert directory.path.parent == folder and runtime_path() != directory.path
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert directory.sockets.stat().st_mode & 0o777 == 0o700
    directory.write_processes([entry(os.getpid())])
    (directory.metrics / "l1.prom").touch()
    directory.remove()
    assert not directory.path.exists()


def test_an_unusable_xdg_folder_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "absent"))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert runtime_path().parent == folder


def test_a_given_directory_keeps_files_of_others(folder: Path) -> None:
    value = folder / "given"
    value.mkdir()
    (value / "keep").touch()
    (value / "metrics").mkdir()
    (value / "metrics" / "mine.txt").touch()
    (value / "ipc").mkdir()
    (value / "ipc" / "mine.py").touch()
    directory = open_runtime_directory(value, SHORT)
    assert not directory.created
    directory.write_processes([entry(os.getpid())])
    (directory.metrics / "l1.prom").touch()
    (directory.sockets / "l1.blocks.sock").touch()
    directory.remove()
    kept = ["ipc", "ipc/mine.py", "keep", "metrics", "metrics/mine.txt"]
    assert sorted(str(path.relative_to(value)) for path in value.rglob("*")) == kept


def test_a_given_directory_that_the_node_created_is_removed(folder: Path) -> None:
    directory = open_runtime_directory(folder / "a" / "b", SHORT)
    assert directory.created
    directory.remove()
    assert not (folder / "a" / "b").exists()


def test_a_directory_that_is_removed_meanwhile_is_created_again(folder: Path) -> None:
    """As by the sweeper of a node that was killed, while the next one starts."""
    path = folder / "run"
    path.mkdir(0o700)
    lock = take_lock(path)
    with ThreadPoolExecutor(1) as threads:
        opened = threads.submit(open_runtime_directory, path, SHORT)
        time.sleep(0.1)
        remove(path, True)
        os.close(lock)
        directory = opened.result(10)
    assert directory.created and path.is_dir()
    os.close(directory.lock)


def test_a_lock_on_a_removed_file_does_not_count(folder: Path) -> None:
    first = take_lock(folder)
    (folder / "lock").unlink()
    second = take_lock(folder)
    os.close(first)
    with pytest.raises(DirectoryInUseError):
        take_lock(folder)
    os.close(second)


@pytest.mark.parametrize("denied", ["", "pidfd_open", "pidfd_send_signal"])
def test_the_directory_of_a_killed_node_is_swept(folder: Path, monkeypatch: pytest.MonkeyPatch, denied: str) -> None:
    """[LIF28]"""

    def deny(*_: object) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if denied:
        monkeypatch.setattr(os if denied == "pidfd_open" else signal, denied, deny)
    directory = open_runtime_directory(folder / "d", SHORT)
    with sleeper() as left, sleeper() as stranger:
        directory.write_processes([entry(left.pid), entry(stranger.pid, start_ticks=7), entry(os.getpid())])
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(directory.sockets / "l1.blocks.sock"))
        (directory.metrics / "l1.prom").touch()
        abandon(directory)
        again = open_runtime_directory(folder / "d", SHORT)
        assert left.wait(30) == -signal.SIGKILL
        assert stranger.poll() is None
        assert list(again.sockets.iterdir()) == list(again.metrics.iterdir()) == []
        assert read_processes(again.path) == []
        again.remove()
        stranger.kill()


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"role":"l1"}]', '[{"role":"\xd3"}]', "[" * 20_000])
def test_a_damaged_list_of_processes_is_ignored(folder: Path, text: str) -> None:
    (folder / "processes.json").write_text(text, encoding="latin-1")
    assert read_processes(folder) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / ("x" * 90), r"is too long: sockets allow 82 bytes, give a shorter path$"),
        (lambda folder: folder / "file", r"is not a directory"),
        (lambda folder: folder / "file" / "below", r"is not a directory"),
        (lambda _: Path("/proc/absent/below"), r"/proc/absent/below cannot be created: No such file"),
    ],
)
def test_unusable_directories_end_in_one_line(folder: Path, make: Callable[[Path], Path], message: str) -> None:
    (folder / "file").touch()
    with pytest.raises(SetupError, match=message) as caught:
        open_runtime_directory(make(folder), SHORT)
    assert "\n" not in str(caught.value)


def test_processes_json_is_for_all_to_read(folder: Path) -> None:
    directory = open_runtime_directory(folder / "d", SHORT)
    directory.write_processes([entry(os.getpid())])
    assert (directory.path / "processes.json").stat().st_mode & 0o777 == 0o644
    assert [read.pid for read in read_processes(directory.path)] == [os.getpid()]
    directory.remove()


def test_a_list_that_others_may_write_to_is_ignored(folder: Path) -> None:
    directory = open_runtime_directory(folder / "d", SHORT)
    directory.write_processes([entry(os.getpid())])
    (directory.path / "processes.json").chmod(0o666)
    assert read_processes(directory.path) == []
    directory.remove()


@pytest.mark.parametrize(
    ("name", "message"), [("", "d cannot be used: others may write"), ("ipc", "d cannot be used: .*/d/ipc: others may")]
)
def test_a_directory_that_others_may_write_to_is_refused(folder: Path, name: str, message: str) -> None:
    (folder / "d" / "ipc").mkdir(parents=True)
    (folder / "d" / name).chmod(0o777)
    with pytest.raises(SetupError, match=message):
        open_runtime_directory(folder / "d", SHORT)


def test_a_directory_that_changes_hands_while_it_is_used_is_left_alone(folder: Path) -> None:
    directory = open_runtime_directory(folder / "d", SHORT)
    directory.path.chmod(0o777)
    with pytest.raises(UnsafeFileError):
        directory.remove()
    assert directory.sockets.exists()


def test_the_ends_of_chains_are_read_and_swept(folder: Path) -> None:
    """[LIF34]"""
    directory = open_runtime_directory(folder / "d", SHORT)
    for group in ("", "10"):
        directory.end(group).write_text(f"because of {group or 'all'}")
    assert [directory.read_end(group) for group in ("", "10", "130")] == ["because of all", "because of 10", ""]
    directory.write_aside([ChainAside("10", "CRITICAL", "because of 10", 1.0, 16.0)])
    assert (directory.path / "aside.json").stat().st_mode & 0o777 == 0o644
    directory.remove()
    assert not (folder / "d").exists()
