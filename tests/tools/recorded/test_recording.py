"""A recording is read back as it was written, and says what it lacks."""

from pathlib import Path

import pytest

from rollup_node.tools.recorded import recording
from rollup_node.tools.recorded.recording import NotRecorded, Recording
from tests.support.chains.recordings import FIRST, write_recording


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_recording(tmp_path)
    monkeypatch.setattr(recording, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        Recording.load(tmp_path)


def test_what_was_not_recorded_is_named(tmp_path: Path) -> None:
    write_recording(tmp_path)
    loaded = Recording.load(tmp_path)
    with pytest.raises(NotRecorded, match=f"L1 block {FIRST + 3} was not recorded"):
        loaded.block(FIRST + 3)
    with pytest.raises(NotRecorded, match="0x0000"):
        loaded.block_by_hash(bytes(32))
    with pytest.raises(NotRecorded, match=f"the transactions of L1 block {FIRST + 2} were not recorded"):
        loaded.block(FIRST + 2).block(True)
