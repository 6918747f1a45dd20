"""A small recording for the tests of its server."""

from pathlib import Path

import pytest

from rollup_node.tools.recorded.recording import Recording
from tests.support.chains.recordings import write_recording


@pytest.fixture(scope="module")
def recording_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of the recording."""
    folder = tmp_path_factory.mktemp("recording")
    write_recording(folder)
    return folder


@pytest.fixture(scope="module")
def recording(recording_folder: Path) -> Recording:
    """Return the recording itself."""
    return Recording.load(recording_folder)
