"""A race over a small course."""

import json
import os
import subprocess
import sys

import msgspec

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.processes import process_tree
from rollup_node.tools.bench.race.runner import busy_loops
from tests.support.processes.leftovers import Leftovers


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
    found = json.loads(done.stdout)
    assert found["blocks_per_second"].keys() == {"5"}
    assert found["by_latency"]["5"]["runs"] == 1
    calls = found["engine_calls"]
    assert 0 < calls["engine_newPayloadV4"] < calls["engine_newPayloadV4"] + calls["engine_newPayloadV3"] == 40
    assert 3 <= found["engine_calls_per_block"] <= 5
    assert 1 <= found["l1_requests"] <= 60
    assert found["l1_bytes"] > 100_000
    assert found["beacon_calls"]["/eth/v1/beacon/blobs"] == 2
    assert found["pss_mb"] > 20
    assert 0 < found["first_l1_request_s"] < found["first_attributes_s"] < found["end_s"]
    assert found["cpu_s"] > 0.5
    # So few blocks may be over before a busy machine has looked at the processes, which then used none.
    assert found["cpu_ms_per_block_by_process"].keys() >= {"supervisor", "l1", "blobs", "derivation", "engine", "rpc"}
    assert found["server_cpu_ms_per_block"] > 0
    assert found["ready_s"] > 0
    assert "op_node" not in found


def test_busy_loops_end() -> None:
    before = process_tree(os.getpid())
    with busy_loops(2):
        assert len(process_tree(os.getpid())) == len(before) + 2
    assert process_tree(os.getpid()) == before
