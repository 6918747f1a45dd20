"""The recorded OP Sepolia data, and a prepared chain with its servers."""

import gc
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rollup_node
from tests.support.servers.course_servers import ServedCourse, course_servers

FIRST, LAST = 16_491_244, 16_491_249
"""The safe head before the last span of the recording, and its last block."""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCourse]:
    """Yield a chain of 56 L2 blocks from its genesis on, which crosses four forks, with garbage on L1."""
    with course_servers(tmp_path_factory.mktemp("course")) as served:
        yield served


@pytest.fixture
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail where a thread, a file or a socket of a derivation is left. The test's own folder is elsewhere."""
    folder = Path(tempfile.mkdtemp(prefix="rn-"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    gc.collect()
    assert [thread.name for thread in threading.enumerate() if thread.name == "rollup_node"] == []
    assert list(folder.iterdir()) == []
    folder.rmdir()


def over(course: ServedCourse, **changes: Any) -> rollup_node.Derivation:
    """Derive the prepared chain, with other arguments."""
    chain = rollup_node.Chain.load(course.options[-1])
    arguments: dict[str, Any] = {"l1": course.urls.l1, "beacon": course.urls.beacon, "from_l2": 0}
    return rollup_node.derive(chain, **(arguments | changes))
