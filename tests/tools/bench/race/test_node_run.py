"""Runs that give no figures."""

import json
import sys

import pytest

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.node_run import RaceError, running
from rollup_node.tools.bench.race.programs import RaceProgram
from rollup_node.tools.bench.race.server import LastSafe


def follow(course: CourseFiles, program: RaceProgram, seconds: float) -> None:
    with running(course, program, [], seconds) as node:
        node.next(LastSafe)


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
        follow(course, program, seconds)


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
        follow(course, program, 30.0)
