"""The limits of control groups of both versions and of the user."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.procfs import read_stat
from rollup_node.node.system.resources import (
    MEMORY_LOOK_SECONDS,
    Memory,
    MemoryWatch,
    check_task_limit,
    cpu_quota,
    free_tasks,
    group_folders,
    is_little,
    read_memory,
    trim_heap,
    usable_cores,
)
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from tests.support.foreign_user import FOREIGN_USER, needs_root

V2, V1 = "0::/pod/node\n", "4:cpu,cpuacct:/pod/node\n3:pids:/pod/node\n0::/\n"


def groups(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Write files below a root of control groups; the root, and the file that names those of this process."""
    root = folder / "groups"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    (folder / "own").write_text(own)
    return root, folder / "own"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        (V2, {"pod/node/cpu.max": "200000 100000"}, 2.0),
        (V2, {"pod/node/cpu.max": "max 100000", "pod/cpu.max": "150000 100000"}, 1.5),
        (V2, {"pod/node/cpu.max": "300000 100000", "pod/cpu.max": "400000 100000"}, 3.0),
        (V2, {"pod/node/cpu.max": "max 100000"}, None),
        (V2, {"pod/node/cpu.max": "odd"}, None),
        ("0::/../../elsewhere\n", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/\n", {}, None),
        (V1, {"cpu/pod/node/cpu.cfs_quota_us": "250000", "cpu/pod/node/cpu.cfs_period_us": "100000"}, 2.5),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "80000", "cpu,cpuacct/cpu.cfs_period_us": "40000"}, 2.0),
        (V1, {"cpu/pod/node/cpu.cfs_quota_us": "-1", "cpu/pod/node/cpu.cfs_period_us": "100000"}, None),
        (V1, {"cpu/pod/node/cpu.cfs_quota_us": "1", "cpu/pod/node/cpu.cfs_period_us": "0"}, None),
    ],
)
def test_the_smallest_quota_counts(tmp_path: Path, own: str, files: dict[str, str], quota: float | None) -> None:
    """[OPT85]"""
    assert cpu_quota(*groups(tmp_path, own, files)) == quota


@pytest.mark.parametrize(
    ("cores", "quota", "usable"),
    [(48, "max", 48), (48, "210000", 3), (48, "50000", 2), (1, "50000", 1), (2, "400000", 2)],
)
def test_the_quota_is_rounded_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, quota: str, usable: int
) -> None:
    """[OPT85]"""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert usable_cores(*groups(tmp_path, V2, {"pod/node/cpu.max": f"{quota} 100000"})) == usable


@pytest.mark.parametrize(
    ("own", "files", "free"),
    [
        (V2, {"pod/node/pids.max": "100", "pod/node/pids.current": "40"}, 60),
        (V2, {"pod/node/pids.max": "max", "pod/pids.max": "50", "pod/pids.current": "60"}, 0),
        (V1, {"pids/pids.max": "30", "pids/pids.current": "7"}, 23),
        (V1, {"pids/pod/node/pids.max": "max"}, None),
    ],
)
def test_what_a_group_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], free: int | None
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert free_tasks(*groups(tmp_path, own, files)) == free


def test_folders_outside_the_root_are_not_read(tmp_path: Path) -> None:
    assert group_folders("cpu", *groups(tmp_path, "1:cpu:/../x\n2:memory:/y\n", {})) == [tmp_path / "groups" / "cpu"]


def test_too_few_processes_end_the_start_with_the_number_needed() -> None:
    """[LIF30]"""
    text = "the node needs 36 processes and threads, and the limit leaves 35: raise the limit"
    with pytest.raises(SetupError, match=text):
        check_task_limit(7, 35)
    check_task_limit(7, 36)
    check_task_limit(7, None)


@needs_root
def test_the_limit_of_a_user_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    assert free_tasks(*groups(tmp_path, "", {})) is None, "for root"
    monkeypatch.setattr(os, "geteuid", lambda: FOREIGN_USER)
    monkeypatch.setattr(os, "getuid", lambda: FOREIGN_USER)
    with subprocess.Popen(["sleep", "60"], cwd="/", user=FOREIGN_USER) as sleeper:
        assert 1 <= (free_tasks(*groups(tmp_path, "", {})) or 0) < 1000
        sleeper.kill()


MEMINFO = "MemTotal:        8000000 kB\nMemFree: 10 kB\nMemAvailable:    2000000 kB\n"
MACHINE = Memory(8_000_000 << 10, 2_000_000 << 10)


def read(folder: Path, own: str = "0::/") -> Memory | None:
    (folder / "own").write_text(own)
    return read_memory(folder / "meminfo", folder / "groups", folder / "own")


def group(path: Path, limit: str, current: int, inactive_file: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text(f"{limit}\n")
    (path / "memory.current").write_text(f"{current}\n")
    (path / "memory.stat").write_text(f"anon 7\ninactive_file {inactive_file}\n")


def test_the_machine(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "meminfo").write_text(MEMINFO)
    assert read(tmp_path) == MACHINE
    group(tmp_path / "groups", "max", 5)
    assert read(tmp_path) == MACHINE, "without a limit"


def test_the_group_with_the_least_left_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    group(tmp_path / "groups" / "system" / "node", "1000000000", 700_000_000, 100_000_000)
    assert read(tmp_path, "1:name=x:/\n0::/system/node\n") == Memory(10**9, 400_000_000)
    group(tmp_path / "groups" / "system", "900000000", 800_000_000)
    assert read(tmp_path, "0::/system/node\n") == Memory(900_000_000, 100_000_000)


def test_strange_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_bytes(b"\xff MemTotal")
    group(tmp_path / "groups", "lots", 1)
    assert read(tmp_path) is None and read(tmp_path, "0::/../..\n") is None


@pytest.mark.parametrize(
    "memory, little",
    [
        (Memory(4 << 30, 300 << 20), False),
        (Memory(4 << 30, 200 << 20), True),
        (Memory(256 << 30, 513 << 20), False),
        (Memory(256 << 30, 511 << 20), True),
    ],
)
def test_what_is_little(memory: Memory, little: bool) -> None:
    assert is_little(memory) == little


@pytest.mark.sign("MEMORY", line=True)
def test_little_memory(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_configuration", log.configuration()._replace(level=log.Level.INFO))
    left = [
        Memory(4 * 10**9, 10**9),
        None,
        Memory(4 * 10**9, 10**8),
        Memory(4 * 10**9, 10**8),
        Memory(4 * 10**9, 10**9),
    ]
    sizes = {"l1": 900_000_000, "compute": 300_000_000, "rpc": 100_000_000, "p2p": 500_000_000}
    watch = MemoryWatch(Logger("supervisor"), lambda: sizes, lambda: left.pop(0))
    now = 0.0
    while left:
        watch.step(now)
        watch.step(now + MEMORY_LOOK_SECONDS / 2)
        now += MEMORY_LOOK_SECONDS
    warning, end = capsys.readouterr().err.splitlines()
    assert warning == (
        "warn supervisor: little memory is left code=MEMORY available=100 MB total=4000 MB"
        f" largest=l1 900 MB, p2p 500 MB, compute 300 MB do={Code.MEMORY.remedy}"
    )
    assert end.startswith("info supervisor: there is memory again code=MEMORY available=1000 MB")


def test_the_free_pages_of_the_heap_are_given_back() -> None:
    """Every second value is freed, so that the C library cannot do it by itself."""

    def resident() -> int:
        stat = read_stat(os.getpid())
        assert stat is not None
        return stat.resident

    values = [bytes(60_000) for _ in range(1000)]
    kept = values[::2]
    del values
    before = resident()
    trim_heap()
    assert before - resident() > 10_000_000 and len(kept) == 500
