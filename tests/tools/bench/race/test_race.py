"""A race over a small course, and its figures."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFiles, CourseSize
from tests.support.processes.leftovers import Leftovers

SMALL = CourseSize(
    l1_blocks=12,
    transactions=20,
    deposits=6,
    l2_blocks=40,
    l2_transactions=4,
    blocks_per_channel=24,
    blocks_per_span=12,
    garbage=2,
    fork_blocks=8,
)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CourseFiles]:
    """Yield the files of a course small enough for tests."""
    folder = tmp_path_factory.mktemp("course")
    prepare(folder, SMALL)
    with closing(CourseFiles(folder)) as files:
        yield files


def test_a_race(course: CourseFiles, leftovers: Leftovers) -> None:
    """The run itself checks every attribute and the safe head that the node reports."""
    sizes = msgspec.structs.asdict(course.facts.size).items()
    arguments = [*(f"--{name.replace('_', '-')}={value}" for name, value in sizes), "--json"]
    arguments += [f"--course={course.rollup.parent}", "--latency=5", "--runs=1", "--warm-up=0", "--timeout=50"]
    command = [sys.executable, "-m", "rollup_node.tools.bench.race", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=58, cwd=leftovers.folder, env=leftovers.environment()
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["by_latency"]["5"]["runs"] == 1
    calls = figures["engine_calls"]
    assert 0 < calls["engine_newPayloadV4"] < calls["engine_newPayloadV4"] + calls["engine_newPayloadV3"] == 40
    assert 3 <= figures["engine_calls_per_block"] <= 5 and 1 <= figures["l1_requests"] <= 60
    assert 0 < figures["first_l1_request_s"] < figures["first_attributes_s"] < figures["end_s"]
    assert figures["cpu_s"] > 0.5 and figures["pss_mb"] > 20
    assert figures["l1_calls_made"] == sum(figures["l1_calls"].values()) >= figures["l1_requests"]
    assert 0 < figures["engine_busy_percent"] < 100
    assert 0 < figures["answer_to_call_p50_ms"] <= figures["answer_to_call_p99_ms"]
