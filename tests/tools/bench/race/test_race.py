"""A race over a small course, the figures at its tip, and what ends a run without figures."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFiles, CourseSize
from rollup_node.tools.bench.race.node_run import RaceError, run_tip, running
from rollup_node.tools.bench.race.programs import RaceProgram
from rollup_node.tools.bench.race.server import LastSafe
from tests.conftest import ROOT
from tests.support.processes.leftovers import Leftovers

FOLLOWER = RaceProgram(
    "follower",
    lambda course, place: [
        *("/usr/bin/env", "-C", str(ROOT), sys.executable, "-m", "tests.support.servers.course_follower"),
        *(place.servers.l1, place.servers.engine, str(place.rpc_port), str(course.rollup.parent)),
    ],
)
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
WRONG = """
import json, signal, sys, urllib.request
url, head, attributes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
state = {f"{label}BlockHash": head for label in ("head", "safe", "finalized")}
body = {"jsonrpc": "2.0", "id": 1, "method": "engine_forkchoiceUpdatedV3", "params": [state, attributes]}
urllib.request.urlopen(url, json.dumps(body).encode()).read()
signal.pause()
"""


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


def test_the_tip(course: CourseFiles) -> None:
    run = run_tip(course, FOLLOWER, 0.2, 3)
    assert run.l1_blocks == 3 and 1 <= run.l1_requests_per_block <= 6


@pytest.mark.parametrize(
    ("script", "seconds", "text"),
    [
        ("print('no such option'); raise SystemExit(3)", 30.0, "odd has ended with code 3.*no such option"),
        ("import signal; signal.pause()", 0.0, "odd has not reached the end of the course in time"),
        (WRONG, 30.0, "odd derives something else: block 1 has other timestamp"),
    ],
)
def test_a_run_without_figures(course: CourseFiles, script: str, seconds: float, text: str) -> None:
    attributes = json.loads(course.body("l2/1/attributes")) | {"timestamp": "0x5"}
    words = [course.facts.l2_hashes[0], json.dumps(attributes)]
    program = RaceProgram("odd", lambda _, place: [sys.executable, "-c", script, place.servers.engine, *words])
    with pytest.raises(RaceError, match=f"(?s){text}"), running(course, program, [], seconds) as node:
        node.next(LastSafe)
