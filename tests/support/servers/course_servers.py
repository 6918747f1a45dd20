"""A prepared course in a folder, and its servers with all L2 blocks: `with course_servers(folder, size) as course`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFacts, CourseSize
from rollup_node.tools.bench.race.node_run import ServerProcess
from rollup_node.tools.bench.race.server import Listening, Served

SMALL = CourseSize(
    l1_blocks=14,
    transactions=3,
    deposits=6,
    l2_blocks=56,
    l2_transactions=2,
    blocks_per_channel=14,
    blocks_per_span=7,
    sidecars=0,
    garbage=2,
    fork_blocks=11,
)


class ServedCourse:
    """What the course is, and the options of a node that reads it.

    Once the servers have ended, `served` has their counts of requests."""

    served: Served

    def __init__(self, facts: CourseFacts, rollup: Path, urls: Listening) -> None:
        self.facts, self.urls = facts, urls
        self.first, self.last = facts.l1_genesis + 1, facts.l1_head
        self.options = ("--l1", urls.l1, "--l1.beacon", urls.beacon, "--rollup.config", str(rollup))
        self.source = ("--l2", urls.engine)


@contextmanager
def course_servers(folder: Path, size: CourseSize = SMALL) -> Iterator[ServedCourse]:
    """Build the course and serves it."""
    facts = prepare(folder, size)
    with ServerProcess(folder, ["--complete"]) as server:
        course = ServedCourse(facts, folder / "rollup.json", server.urls)
        yield course
    assert server.served is not None
    course.served = server.served
