"""A course small enough for tests, which is built once."""

from collections.abc import Iterator

import pytest

from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFiles, CourseSize

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


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CourseFiles]:
    """Yield the files of the course."""
    folder = tmp_path_factory.mktemp("course")
    prepare(folder, SMALL)
    files = CourseFiles(folder)
    yield files
    files.close()
