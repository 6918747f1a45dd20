"""A prepared course in a folder, and its servers with all L2 blocks: `with course_servers(folder, size) as course`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFacts
from rollup_node.tools.bench.race.course_size import CourseSize
from rollup_node.tools.bench.race.server import Listening, Message, Served

SMALL = CourseSize(
    l1_blocks=14,
    transactions=3,
    deposits=6,
    l2_blocks=56,
    l2_transactions=2,
    blocks_per_channel=14,
    blocks_per_span=7,
    sidecars=False,
)


class ServedCourse:
    """What the course is, and the options of a node that reads it. Once the servers have ended, `served` has their
    counts of requests."""

    served: Served

    def __init__(self, facts: CourseFacts, rollup: Path, urls: Listening) -> None:
        self.facts, self.urls = facts, urls
        self.first, self.last = facts.l1_genesis + 1, facts.l1_head
        self.options = ("--l1", urls.l1, "--l1.beacon", urls.beacon, "--rollup.config", str(rollup))
        self.source = ("--l2", urls.engine)


@contextmanager
def course_servers(folder: Path, size: CourseSize = SMALL) -> Iterator[ServedCourse]:
    """Builds the course and serves it."""
    facts = prepare(folder, size)
    command = [sys.executable, "-m", "rollup_node.tools.bench.race.server", str(folder), "--complete"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        urls = msgspec.json.decode(server.stdout.readline(), type=Message)
        assert isinstance(urls, Listening)
        course = ServedCourse(facts, folder / "rollup.json", urls)
        yield course
        server.stdin.close()
        served = msgspec.json.decode(server.stdout.read().splitlines()[-1], type=Message)
        assert isinstance(served, Served) and server.wait(20) == 0
        course.served = served
