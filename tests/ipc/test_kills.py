"""Real processes killed at any moment; the scenarios are in forked_processes.py and run in a process of their own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.leftovers import Leftovers

RunScenario = Callable[[str], dict[str, Any]]
SCRIPT = Path(__file__).parent / "forked_processes.py"


@pytest.fixture
def run_scenario(tmp_path: Path, leftovers: Leftovers) -> RunScenario:
    """Run a scenario; what it reports. It may leave nothing behind."""

    def run(scenario: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(SCRIPT), scenario, str(tmp_path)],
            cwd=leftovers.folder,
            env=leftovers.environment(),
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )
        assert not done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == 0
        assert report["files"] == [], "the runtime directory is clean"
        assert set(report["exits"]) <= {0}
        return report

    return run


def test_a_writer_killed_in_mid_write_leaves_no_wrong_value(run_scenario: RunScenario) -> None:
    report = run_scenario("killed_in_mid_write")
    assert report.get("wrong", 0) == 0
    assert report["right"] > 100 and report["void"] > 10


def test_values_are_right_and_chunks_freed_whoever_is_killed(run_scenario: RunScenario) -> None:
    report = run_scenario("both_ends_killed")
    assert report["held"] > 10 and report["freed"] and report["went_on"] and report["all_free"]
    assert report["wrong"] == 0 and report["right"] > 50
