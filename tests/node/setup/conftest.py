"""An own working directory for every test of set-up, because files of a node have relative paths by default."""

from pathlib import Path

import pytest

from rollup_node.stages.io.files import sqlite_file
from tests.node.setup.planning import JWT


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory, which holds a JWT secret; a database that another node uses is not waited for long."""
    monkeypatch.setattr(sqlite_file, "_BUSY_TIMEOUT", 0.1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node_jwt.txt").write_text(JWT.hex())
    return tmp_path
