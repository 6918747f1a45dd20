"""What a derivation may not leave behind."""

import gc
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest


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
