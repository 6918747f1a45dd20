"""An own working directory for every test of set-up, because files of a node have relative paths by default."""

from pathlib import Path

import pytest

from tests.node.setup.planning import JWT


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory, which holds a JWT secret."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node_jwt.txt").write_text(JWT.hex())
    return tmp_path
