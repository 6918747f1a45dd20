"""Real processes killed at any moment; the scenarios are in forked_processes.py and run in a process of their own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.programs import is_alive

SCRIPT = Path(__file__).parent / "forked_processes.py"


def run_scenario(scenario: str, directory: Path) -> dict[str, Any]:
    """Runs a scenario; what it reports. Nothing may be left in /dev/shm or in the directory."""
    shared = set(os.listdir("/dev/shm"))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), scenario, str(directory)],
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


def test_a_writer_killed_in_mid_write_leaves_no_wrong_value(tmp_path: Path) -> None:
    report = run_scenario("killed_in_mid_write", tmp_path)
    assert report.get("wrong", 0) == 0
    assert report["right"] > 100 and report["void"] > 10


def test_a_producer_killed_repeatedly_gives_no_wrong_value(tmp_path: Path) -> None:
    report = run_scenario("producer_killed", tmp_path)
    assert report["wrong"] == 0 and report["went_on"]
    assert report["right"] > 50


def test_the_chunks_held_by_a_killed_reader_are_freed(tmp_path: Path) -> None:
    report = run_scenario("reader_killed", tmp_path)
    assert report["held"] > 10 and report["freed"] and report["all_free"]
    assert report["wrong"] == 0 and report["right"] > 50


def test_no_task_is_lost_or_doubled_when_workers_and_dispatchers_die(tmp_path: Path) -> None:
    report = run_scenario("workers_killed", tmp_path)
    assert report["ended"] and report["missing"] == report["doubled"] == report["wrong"] == 0
    assert report["kills"] >= 5 and report["last"]["outstanding"] == 0
    assert report["failed"] == []


def test_states_go_on_when_their_publisher_is_killed(tmp_path: Path) -> None:
    report = run_scenario("restarted_server", tmp_path)
    assert (report["ordered"], report["newest"]) == (True, 6)


def test_no_process_outlives_the_supervisor(tmp_path: Path) -> None:
    report = run_scenario("supervisor_killed", tmp_path)
    assert len(report["pids"]) == 3
    end = time.monotonic() + 30
    while any(is_alive(pid) for pid in report["pids"]):
        if time.monotonic() > end:
            pytest.fail("a process outlives its supervisor")
        time.sleep(0.01)
