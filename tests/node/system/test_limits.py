"""The limits of control groups of both versions and of the user."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.limits import check_task_limit, cpu_quota, free_tasks, group_folders, usable_cores
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
