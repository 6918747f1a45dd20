"""The file that keeps over restarts whether the sequencer is started [ADM1, ADM2]."""

import os
import stat
from pathlib import Path

import pytest

from rollup_node.stages.engine.process.admin_state_file import MAX_BYTES, AdminState, AdminStateError, AdminStateFile


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "state.json"
    file = AdminStateFile(str(path))
    assert file.load() == AdminState()
    for started in (True, False):
        file.store(started)
        assert AdminStateFile(str(path)).load() == AdminState(started)
    assert path.read_text() == '{"sequencerStarted":false}\n'
    assert [each.name for each in path.parent.iterdir()] == ["state.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o700 == 0o600


def test_what_is_stored_beside_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"sdmPostExecOptIn": true}')
    AdminStateFile(str(path)).store(True)
    assert AdminStateFile(str(path)).load() == AdminState(True, True)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"sequencerstarted":true}', '{"sequencerStarted":1}', '{"other":1}', "\xff", "x" * MAX_BYTES * 2],
)
def test_a_malformed_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    for use in (AdminStateFile(str(path)).load, lambda: AdminStateFile(str(path)).store(True)):
        with pytest.raises(AdminStateError, match="invalid config file") as caught:
            use()
        assert str(path) in str(caught.value) and len(str(caught.value)) < 1000
    assert path.read_text(encoding="latin-1") == text


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdminStateError, match="Is a directory"):
        AdminStateFile(str(tmp_path)).load()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AdminStateError, match="invalid config file"):
        AdminStateFile(str(tmp_path / "pipe")).load()
    (tmp_path / "file").write_text("")
    with pytest.raises(AdminStateError, match="Not a directory"):
        AdminStateFile(str(tmp_path / "file" / "state.json")).store(True)
