"""The recorded OP Sepolia data, and a prepared chain with its servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stages.engine.conftest import chain, rollup
from tests.support.servers.course_servers import ServedCourse, course_servers

__all__ = ["chain", "rollup"]

FIRST, LAST = 16_491_244, 16_491_249
"""The safe head before the last span of the recording, and its last block."""


@pytest.fixture(scope="session")
def recording_folder(shared_data: Path) -> Path:
    return shared_data / "op_sepolia_replay"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCourse]:
    """Yield a chain of 56 L2 blocks from its genesis on, which crosses four forks, with garbage on L1."""
    with course_servers(tmp_path_factory.mktemp("course")) as served:
        yield served
