"""Real processes killed at any moment; the scenarios are in family.py and run in a process of their own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FAMILY = Path(__file__).parent / "family.py"


def act(scenario: str, directory: Path) -> dict[str, Any]:
    """Runs a scenario; what it reports. Nothing may be left in /dev/shm or in the directory."""
    shared = set(os.listdir("/dev/shm"))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FAMILY), scenario, str(directory)],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert not done.stderr
    assert set(os.listdir("/dev/shm")) == shared
    report: dict[str, Any] = json.loads(done.stdout)
    if scenario != "supervisor_killed":
        assert done.returncode == 0
        assert report["files"] == [], "the runtime directory is clean"
        assert set(report["exits"]) <= {0}
    return report


def lives(pid: int) -> bool:
    """Whether the process runs; one that only waits for its parent to look does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_writer_killed_in_mid_write_leaves_no_wrong_value(tmp_path: Path) -> None:
    report = act("killed_in_mid_write", tmp_path)
    assert report.get("wrong", 0) == 0
    assert report["right"] > 100 and report["void"] > 10


def test_a_producer_killed_again_and_again_gives_no_wrong_value(tmp_path: Path) -> None:
    report = act("producer_killed", tmp_path)
    assert report["wrong"] == 0 and report["went_on"]
    assert report["right"] > 50


def test_a_reader_killed_with_slots_in_its_hands_gives_them_back(tmp_path: Path) -> None:
    report = act("reader_killed", tmp_path)
    assert report["held"] > 10 and report["freed"] and report["all_free"]
    assert report["wrong"] == 0 and report["right"] > 50


def test_no_task_is_lost_or_doubled_when_workers_and_dispatchers_die(tmp_path: Path) -> None:
    report = act("workers_killed", tmp_path)
    assert report["ended"] and report["missing"] == report["doubled"] == report["wrong"] == 0
    assert report["kills"] >= 5 and report["last"]["outstanding"] == 0
    assert report["failed"] == []


def test_states_go_on_when_their_publisher_is_killed(tmp_path: Path) -> None:
    assert act("restarted_server", tmp_path) | {"exits": [], "files": []} == {
        "ordered": True,
        "newest": 6,
        "exits": [],
        "files": [],
    }


def test_nobody_outlives_the_supervisor(tmp_path: Path) -> None:
    report = act("supervisor_killed", tmp_path)
    assert len(report["pids"]) == 3
    end = time.monotonic() + 30
    while any(lives(pid) for pid in report["pids"]):
        if time.monotonic() > end:
            pytest.fail("a process outlives its supervisor")
        time.sleep(0.01)
