"""The file that keeps over restarts whether the sequencer is started [ADM1, ADM2]."""

import os
import stat
from pathlib import Path

import pytest

from rollup_node.stages.engine.process.admin_state_file import MAX_BYTES, AdminState, AdminStateError, AdminStateFile
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "state.json"
    file = AdminStateFile(str(path))
    assert file.load() == AdminState()
    for started in (True, False):
        file.store(started=started)
        assert AdminStateFile(str(path)).load() == AdminState(started)
    assert path.read_text() == '{"sequencerStarted":false}\n'
    assert [each.name for each in path.parent.iterdir()] == ["state.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o700 == 0o600


def test_what_is_stored_beside_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"sdmPostExecOptIn": true}')
    AdminStateFile(str(path)).store(started=True)
    assert AdminStateFile(str(path)).load() == AdminState(True, True)


def test_the_sdm_opt_in_is_stored_and_leaves_the_rest(tmp_path: Path) -> None:
    """[ADM5]"""
    path = tmp_path / "state.json"
    file = AdminStateFile(str(path))
    for enabled in (True, False):
        file.store(sdm_opt_in=enabled)
        assert AdminStateFile(str(path)).load() == AdminState(None, enabled)
    file.store(started=False)
    file.store(sdm_opt_in=True)
    assert path.read_text() == '{"sequencerStarted":false,"sdmPostExecOptIn":true}\n'


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path, other = tmp_path / "state.json", tmp_path / "other"
    other.write_text("of somebody else")
    (tmp_path / "state.json.tmp").symlink_to(other)
    AdminStateFile(str(path)).store(started=True)
    assert AdminStateFile(str(path)).load() == AdminState(True)
    assert other.read_text() == "of somebody else" and not path.is_symlink()


BAD_UTF8 = '{"sequencer\xd3tarted":true}'
NESTED = '{"other":' + "[" * 20_000
MALFORMED = (
    "",
    "[]",
    "{",
    '{"sequencerstarted":true}',
    '{"sequencerStarted":1}',
    '{"other":1}',
    "\xff",
    BAD_UTF8,
    NESTED,
)


@pytest.mark.parametrize("text", [*MALFORMED, "x" * MAX_BYTES * 2])
def test_a_malformed_file_is_named(tmp_path: Path, text: str) -> None:
    """[ADM1]"""
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(AdminStateError, match="invalid config file") as caught:
        AdminStateFile(str(path)).load()
    assert str(path) in str(caught.value) and len(str(caught.value)) < 1000
    assert path.read_text(encoding="latin-1") == text


def test_a_file_that_is_damaged_while_the_node_runs_is_overwritten(tmp_path: Path) -> None:
    """[ADM5]: it must not keep a sequencer from being stopped. What was read before stays."""
    path = tmp_path / "state.json"
    path.write_text('{"sdmPostExecOptIn": true, "sequencerStarted": true}')
    file = AdminStateFile(str(path))
    assert file.load() == AdminState(True, True)
    lines: list[Record] = []
    before = log.configuration()
    log.configure("engine", Level.INFO, lines.append)
    try:
        for number, text in enumerate(MALFORMED):
            path.write_text(text, encoding="latin-1")
            file.store(started=bool(number % 2))
            assert AdminStateFile(str(path)).load() == AdminState(bool(number % 2), True)
    finally:
        log.configure(*before)
    assert [line.level for line in lines] == [Level.WARN] * len(MALFORMED)


def test_what_is_stored_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[ADM2]: the new file before it takes the old one's place, and then its folder; a new folder in the one above."""
    path = tmp_path / "new" / "folder" / "state.json"
    steps: list[tuple[str, Path]] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def replaced(source: Path, target: Path) -> None:
        steps.append(("replace", Path(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    AdminStateFile(str(path)).store(started=True)
    new = path.with_name("state.json.tmp")
    write = [("sync", new), ("replace", path), ("sync", path.parent)]
    assert steps == [("sync", tmp_path), ("sync", tmp_path / "new"), *write]
    steps.clear()
    AdminStateFile(str(path)).store(started=False)
    assert steps == write


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdminStateError, match="Is a directory"):
        AdminStateFile(str(tmp_path)).load()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AdminStateError, match="invalid config file"):
        AdminStateFile(str(tmp_path / "pipe")).load()
    (tmp_path / "file").write_text("")
    with pytest.raises(AdminStateError, match="Not a directory"):
        AdminStateFile(str(tmp_path / "file" / "state.json")).store(started=True)


def test_what_is_no_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    file = AdminStateFile(str(tmp_path))
    with pytest.raises(AdminStateError, match="Is a directory"):
        file.load()
    # Others may be closed meanwhile: this process frees what earlier tests have left.
    links = (f"/proc/self/fd/{descriptor}" for descriptor in os.listdir("/proc/self/fd"))
    assert str(tmp_path) not in {os.readlink(link) for link in links if os.path.islink(link)}


def test_the_error_of_a_malformed_file_is_one_line(tmp_path: Path) -> None:
    """[ADM1]"""
    path = tmp_path / "state.json"
    path.write_text('{"two\\nlines":true}')
    with pytest.raises(AdminStateError, match="invalid config file") as caught:
        AdminStateFile(str(path)).load()
    assert "\n" not in str(caught.value)
