"""A race over a small course, and programs that do not finish one."""

import json
import subprocess
import sys

import msgspec
import pytest

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.programs import RaceProgram
from rollup_node.tools.bench.race.runner import RaceError, run_once
from tests.support.leftovers import Leftovers


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
    assert found["engine_calls"]["engine_newPayloadV4"] == 40
    assert 3 <= found["engine_calls_per_block"] <= 5
    assert 1 <= found["l1_requests"] <= 60
    assert found["l1_bytes"] > 100_000
    assert found["beacon_calls"]["/eth/v1/beacon/blobs"] == 2
    assert found["pss_mb"] > 20
    assert 0 < found["first_l1_request_s"] < found["first_attributes_s"]
    assert found["cpu_s"] > 0.5
    assert {"engine", "derivation"} <= found["cpu_ms_per_block_by_process"].keys()
    assert found["server_cpu_ms_per_block"] > 0
    assert found["ready_s"] > 0
    assert "op_node" not in found


@pytest.mark.parametrize(
    ("script", "seconds", "text"),
    [
        ("print('no such option'); raise SystemExit(3)", 30.0, "broken has ended with code 3.*no such option"),
        ("import signal; signal.pause()", 0.0, "broken has not reached the end of the course in time"),
    ],
)
def test_a_run_without_figures(course: CourseFiles, script: str, seconds: float, text: str) -> None:
    program = RaceProgram("broken", lambda _course, _place: [sys.executable, "-c", script])
    with pytest.raises(RaceError, match=f"(?s){text}"):
        run_once(course, program, 0.0, 0, seconds)


WRONG = """
import json, signal, sys, urllib.request
url, head, attributes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
state = {f"{label}BlockHash": head for label in ("head", "safe", "finalized")}
body = {"jsonrpc": "2.0", "id": 1, "method": "engine_forkchoiceUpdatedV3", "params": [state, attributes]}
urllib.request.urlopen(url, json.dumps(body).encode()).read()
signal.pause()
"""


def test_a_node_that_derives_something_else(course: CourseFiles) -> None:
    attributes = json.loads(course.body("l2/1/attributes")) | {"timestamp": "0x5"}
    given = [course.facts.l2_hashes[0], json.dumps(attributes)]
    program = RaceProgram("wrong", lambda _, place: [sys.executable, "-c", WRONG, place.servers.engine, *given])
    with pytest.raises(RaceError, match="wrong derives something else: block 1 has other timestamp"):
        run_once(course, program, 0.0, 0, 30.0)
