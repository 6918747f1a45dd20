"""With what the engine process begins: by what admin calls have set in an earlier life of it, or by the options."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.sequencer_store import (
    MAX_ADMIN_BYTES,
    MAX_STATE_BYTES,
    AdminState,
    AdminStateFile,
    SequencerState,
    SequencerStateFile,
    SequencerStore,
    StoreFailedError,
)
from rollup_node.stages.io.log.logger import Level, Record
from tests.support.chains.chain_fixture import ChainFixture


class Node:
    """The files of a node, and lives of its engine process."""

    def __init__(self, chain: ChainFixture, folder: Path) -> None:
        self.chain = chain
        self.admin, self.state = folder / "admin.json", folder / "sequencer.state"

    def store(self, *, admin: bool = True, **config: Any) -> SequencerStore:
        """Return the store of another life."""
        files = {"sequencer_state_file": str(self.state), "admin_state_file": str(self.admin) if admin else None}
        settings: dict[str, Any] = {"sequencer_enabled": True, **files, **config}
        return SequencerStore(EngineConfig("", b"", 1.0, "geth", self.chain.rollup, self.chain.l1_chain, **settings))

    def begins(self, **config: Any) -> tuple[bool, bool]:
        """Whether another life begins with the sequencer started, and in recover mode."""
        result = self.store(**config).load()
        return not result.sequencer_stopped, result.sequencer_recover


@pytest.fixture
def node(chain: ChainFixture, tmp_path: Path) -> Node:
    return Node(chain, tmp_path)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("recover", [False, True])
def test_the_options_count_until_a_call_has_set_something(node: Node, stopped: bool, recover: bool) -> None:
    assert node.begins(sequencer_stopped=stopped, sequencer_recover=recover) == (not stopped, recover)


@pytest.mark.parametrize("admin", [False, True])
def test_what_a_call_has_set_beats_the_options(node: Node, admin: bool) -> None:
    """[ADM7]: both are kept, whichever is stored last."""
    store = node.store(admin=admin)
    store.load()
    store.store(active=False)
    store.store(recover=True)
    assert node.begins(admin=admin) == (False, True)
    again = node.store(admin=admin)
    again.load()
    again.store(recover=False)
    again.store(active=True)
    assert node.begins(admin=admin, sequencer_stopped=True, sequencer_recover=True) == (True, False)


def test_the_file_of_admin_state_beats_the_state_kept_beside_it(node: Node) -> None:
    """[ADM7]: the process was killed between the two writes."""
    for active in (True, False):
        AdminStateFile(str(node.admin)).store(active=active)
        SequencerStateFile(str(node.state)).store(SequencerState(active=not active))
        assert node.begins(sequencer_stopped=active) == (active, False)


@pytest.mark.parametrize("text", ["[", "", "{}", '{"sequencer\xd3tarted":true}', None])
def test_without_a_readable_file_the_state_kept_beside_it_counts(node: Node, text: str | None) -> None:
    """[ADM7]"""
    store = node.store()
    store.load()
    store.store(active=False)
    if text is None:
        node.admin.unlink()
    else:
        node.admin.write_text(text, encoding="latin-1")
    assert node.begins() == (False, False)


def test_a_failure_of_the_file_that_counts_is_an_error(node: Node, tmp_path: Path) -> None:
    """[ADM5, ADM7]"""
    store = node.store()
    node.admin.mkdir()
    with pytest.raises(StoreFailedError, match=r"cannot write .*admin.json"):
        store.store(active=False)
    assert not node.state.exists()
    node.admin.rmdir()
    node.state.mkdir()
    store.store(active=False)
    assert AdminStateFile(str(node.admin)).load() == AdminState(False)
    with pytest.raises(StoreFailedError, match=r"cannot write .*sequencer.state"):
        store.store(recover=True)
    with pytest.raises(StoreFailedError, match=r"cannot write .*sequencer.state"):
        node.store(admin=False).store(active=False)


def test_under_a_conductor_only_recover_mode_is_kept(node: Node) -> None:
    """[CND6]"""
    AdminStateFile(str(node.admin)).store(active=False)
    SequencerStateFile(str(node.state)).store(SequencerState(active=True, recover=True))
    for stopped in (False, True):
        assert node.begins(conductor_enabled=True, sequencer_stopped=stopped) == (not stopped, True)


@pytest.mark.parametrize("admin", [False, True])
def test_the_sdm_opt_in_is_kept(node: Node, admin: bool) -> None:
    """Beside the rest [ADM1, ADM7]."""
    assert not node.store(admin=admin).load().sdm_opt_in
    store = node.store(admin=admin)
    store.load()
    store.store(active=False)
    for enabled in (False, True):
        store.store(sdm_opt_in=enabled)
        begun = node.store(admin=admin).load()
        assert (begun.sdm_opt_in, begun.sequencer_stopped) == (enabled, True)
    if admin:
        assert AdminStateFile(str(node.admin)).load() == AdminState(False, True)
        node.state.unlink()
        assert node.store().load().sdm_opt_in
    begun = node.store(admin=admin, conductor_enabled=True).load()
    assert begun.sdm_opt_in is not admin, "with a conductor the file of rpc.admin-state is not read"


@pytest.mark.parametrize(
    "text",
    ["stop", '{"a\xd3tive":true}', "{", '{"active":1}', '{"other":true}', " " * MAX_ADMIN_BYTES + '{"active":true}'],
)
def test_a_damaged_file_has_nothing(tmp_path: Path, text: str) -> None:
    damaged = tmp_path / "state"
    damaged.write_text(text, encoding="latin-1")
    assert SequencerStateFile(str(damaged)).load() == SequencerState()


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    """[ADM5] Each call leaves the rest."""
    path = tmp_path / "new" / "folder" / "state.json"
    file = AdminStateFile(str(path))
    assert file.load() == AdminState()
    for enabled in (True, False):
        file.store(sdm_opt_in=enabled)
        assert AdminStateFile(str(path)).load() == AdminState(None, enabled)
    for started in (True, False):
        file.store(active=started)
        assert AdminStateFile(str(path)).load() == AdminState(started, False)
    file.store(sdm_opt_in=True)
    assert path.read_text() == '{"sequencerStarted":false,"sdmPostExecOptIn":true}\n'
    assert [item.name for item in path.parent.iterdir()] == ["state.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o700 == 0o600


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path, other = tmp_path / "state.json", tmp_path / "other"
    other.write_text("of somebody else")
    (tmp_path / "state.json.tmp").symlink_to(other)
    AdminStateFile(str(path)).store(active=True)
    assert AdminStateFile(str(path)).load() == AdminState(True)
    assert other.read_text() == "of somebody else" and not path.is_symlink()


BAD_UTF8 = '{"sequencer\xd3tarted":true}'
NESTED = '{"other":' + "[" * 20_000
MALFORMED = (
    *("", "[]", "{", "\xff", BAD_UTF8, NESTED, '{"other":1}', '{"two\\nlines":true}'),
    *('{"sequencerstarted":true}', '{"sequencerStarted":1}'),
)


@pytest.mark.parametrize("text", [*MALFORMED, "x" * MAX_STATE_BYTES * 2])
def test_a_malformed_file_is_named(tmp_path: Path, text: str) -> None:
    """[ADM1]"""
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(StoreFailedError, match="invalid config file") as caught:
        AdminStateFile(str(path)).load()
    text_of_error = str(caught.value)
    assert str(path) in text_of_error and len(text_of_error) < 1000 and "\n" not in text_of_error
    assert path.read_text(encoding="latin-1") == text


def test_a_file_that_is_damaged_while_the_node_runs_is_overwritten(tmp_path: Path, engine_log: list[Record]) -> None:
    """[ADM5]: it must not keep a sequencer from being stopped. What was read before stays."""
    path = tmp_path / "state.json"
    path.write_text('{"sdmPostExecOptIn": true, "sequencerStarted": true}')
    file = AdminStateFile(str(path))
    assert file.load() == AdminState(True, True)
    for number, text in enumerate(MALFORMED):
        path.write_text(text, encoding="latin-1")
        file.store(active=bool(number % 2))
        assert AdminStateFile(str(path)).load() == AdminState(bool(number % 2), True)
    assert [line.level for line in engine_log] == [Level.WARN] * len(MALFORMED)


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
    AdminStateFile(str(path)).store(active=True)
    new = path.with_name("state.json.tmp")
    write = [("sync", new), ("replace", path), ("sync", path.parent)]
    assert steps == [("sync", tmp_path), ("sync", tmp_path / "new"), *write]
    steps.clear()
    AdminStateFile(str(path)).store(active=False)
    assert steps == write


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFailedError, match="Is a directory"):
        AdminStateFile(str(tmp_path)).load()
    # Others may be closed meanwhile: this process frees what earlier tests have left.
    links = (f"/proc/self/fd/{descriptor}" for descriptor in os.listdir("/proc/self/fd"))
    assert str(tmp_path) not in {os.readlink(link) for link in links if os.path.islink(link)}, "it is closed again"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreFailedError, match="invalid config file"):
        AdminStateFile(str(tmp_path / "pipe")).load()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailedError, match="Not a directory"):
        AdminStateFile(str(tmp_path / "file" / "state.json")).store(active=True)
