"""The figures at the tip, of a program that is at the end of its course and asks for the head."""

import sys

import pytest

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.node_run import RaceError
from rollup_node.tools.bench.race.programs import RaceProgram
from rollup_node.tools.bench.race.tip import run_tip
from tests.conftest import ROOT

PROGRAM = RaceProgram(
    "follower",
    lambda course, place: [
        *("/usr/bin/env", "-C", str(ROOT), sys.executable, "-m", "tests.support.servers.course_follower"),
        *(place.servers.l1, place.servers.engine, str(place.rpc_port), str(course.rollup.parent)),
    ],
)


def test_requests_and_cpu_of_new_heads(course: CourseFiles) -> None:
    run = run_tip(course, PROGRAM, 0.2, 3)
    assert run.l1_blocks == 3
    assert run.seconds == pytest.approx(0.6, abs=0.3)
    assert 1 <= run.l1_requests_per_block <= 6
    assert run.l1_bytes_per_block > 1000
    assert run.beacon_requests_per_block == 0
    assert 0 <= run.cpu_percent < 150


def test_a_course_that_is_too_short(course: CourseFiles) -> None:
    with pytest.raises(RaceError, match="12 L1 blocks do not hold 12 new ones"):
        run_tip(course, PROGRAM, 12.0, 10)
