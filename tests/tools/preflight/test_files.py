"""Directories and disks."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from rollup_node.node.checks.finding import FindingLevel
from rollup_node.node.system.memory import Memory
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.preflight.files import LITTLE, TOO_LITTLE, check_files, check_memory


def test_files_that_exist_or_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    found = check_files({"a": str(tmp_path / "there"), "b": str(tmp_path / "new" / "deep" / "file")})
    assert [(each.check, each.level) for each in found if "disk" not in each.check] == [
        ("--a", FindingLevel.OK),
        ("--b", FindingLevel.OK),
    ]
    assert sum("disk" in each.check for each in found) == 1, "a disk is reported once"
    assert [each.name for each in tmp_path.iterdir()] == ["there"], "nothing is made"


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = check_files({"a": str(tmp_path / "file" / "below")})[0]
    assert found.code is Code.DIRECTORY and "is no directory" in found.text


def test_a_directory_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the answer of the system is replaced."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = check_files({"a": str(tmp_path / "file")})[0]
    assert (found.code, found.text) == (Code.DIRECTORY, f"{tmp_path} cannot be written")


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("free", "level"),
    [(LITTLE, FindingLevel.OK), (LITTLE - 1, FindingLevel.WARNING), (TOO_LITTLE - 1, FindingLevel.ERROR)],
)
def test_room_on_the_disk(free: int, level: FindingLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: _Usage(free, 0, free))
    found = check_files({"a": str(tmp_path)})[-1]
    assert found.level is level and found.code is (None if level is FindingLevel.OK else Code.DISK)


@pytest.mark.sign("MEMORY", check=True)
def test_the_findings() -> None:
    little = check_memory(lambda: Memory(4 * 10**9, 10**8))
    assert (little.level, little.code, little.text) == (FindingLevel.WARNING, Code.MEMORY, "100 MB of 4000 MB are left")
    assert check_memory(lambda: Memory(4 * 10**9, 10**9)).level is FindingLevel.OK
    assert check_memory(lambda: None).level is FindingLevel.NOT_CHECKED
