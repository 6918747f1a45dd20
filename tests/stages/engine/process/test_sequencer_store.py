"""With what the engine process begins: by what admin calls have set in an earlier life of it, or by the options."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.admin_state_file import AdminState, AdminStateFile
from rollup_node.stages.engine.process.sequencer_state_file import SequencerState, SequencerStateFile
from rollup_node.stages.engine.process.sequencer_store import SequencerStore, StoreFailedError
from tests.support.chains.chain_fixture import ChainFixture


class Node:
    """The files of a node, and lives of its engine process."""

    def __init__(self, chain: ChainFixture, folder: Path) -> None:
        self.chain = chain
        self.admin, self.state = folder / "admin.json", folder / "sequencer.state"

    def store(self, *, admin: bool = True, **config: Any) -> SequencerStore:
        """The store of another life."""
        settings = {"sequencer_enabled": True, "admin_state_file": str(self.admin) if admin else None, **config}
        rollup = self.chain.rollup
        given = EngineConfig(
            "", b"", 1.0, "geth", rollup, self.chain.l1_chain, sequencer_state_file=str(self.state), **settings
        )
        return SequencerStore(given)

    def begins(self, **config: Any) -> tuple[bool, bool]:
        """Whether another life begins with the sequencer started, and in recover mode."""
        found = self.store(**config).load()
        return not found.sequencer_stopped, found.sequencer_recover


@pytest.fixture
def node(chain: ChainFixture, tmp_path: Path) -> Node:
    return Node(chain, tmp_path)


def test_the_options_count_until_a_call_has_set_something(node: Node) -> None:
    for stopped in (False, True):
        for recover in (False, True):
            begins = node.begins(sequencer_stopped=stopped, sequencer_recover=recover)
            assert begins == (not stopped, recover)


@pytest.mark.parametrize("admin", [False, True])
def test_what_a_call_has_set_beats_the_options(node: Node, admin: bool) -> None:
    """[ADM7]: both are kept, whichever is stored last."""
    store = node.store(admin=admin)
    store.load()
    store.store_active(False)
    store.store_recover(True)
    assert node.begins(admin=admin) == (False, True)
    again = node.store(admin=admin)
    again.load()
    again.store_recover(False)
    again.store_active(True)
    assert node.begins(admin=admin, sequencer_stopped=True, sequencer_recover=True) == (True, False)


def test_the_file_of_admin_state_beats_the_state_kept_beside_it(node: Node) -> None:
    """[ADM7]: the process was killed between the two writes."""
    for active in (True, False):
        AdminStateFile(str(node.admin)).store(started=active)
        SequencerStateFile(str(node.state)).store(SequencerState(active=not active))
        assert node.begins(sequencer_stopped=active) == (active, False)


@pytest.mark.parametrize("text", ["[", "", "{}", '{"sequencer\xd3tarted":true}', None])
def test_without_a_readable_file_the_state_kept_beside_it_counts(node: Node, text: str | None) -> None:
    """[ADM7]"""
    store = node.store()
    store.load()
    store.store_active(False)
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
        store.store_active(False)
    assert not node.state.exists()
    node.admin.rmdir()
    node.state.mkdir()
    store.store_active(False)
    assert AdminStateFile(str(node.admin)).load() == AdminState(False)
    with pytest.raises(StoreFailedError, match=r"cannot write .*sequencer.state"):
        store.store_recover(True)
    with pytest.raises(StoreFailedError, match=r"cannot write .*sequencer.state"):
        node.store(admin=False).store_active(False)


def test_under_a_conductor_only_recover_mode_is_kept(node: Node) -> None:
    """[CND6]"""
    AdminStateFile(str(node.admin)).store(started=False)
    SequencerStateFile(str(node.state)).store(SequencerState(active=True, recover=True))
    for stopped in (False, True):
        assert node.begins(conductor_enabled=True, sequencer_stopped=stopped) == (not stopped, True)


@pytest.mark.parametrize("admin", [False, True])
def test_the_sdm_opt_in_is_kept(node: Node, admin: bool) -> None:
    """Beside the rest [ADM1, ADM7]."""
    assert not node.store(admin=admin).load().sdm_opt_in
    store = node.store(admin=admin)
    store.load()
    store.store_active(False)
    for enabled in (False, True):
        store.store_sdm_opt_in(enabled)
        begun = node.store(admin=admin).load()
        assert (begun.sdm_opt_in, begun.sequencer_stopped) == (enabled, True)
    if admin:
        assert AdminStateFile(str(node.admin)).load() == AdminState(False, True)
        node.state.unlink()
        assert node.store().load().sdm_opt_in
    begun = node.store(admin=admin, conductor_enabled=True).load()
    assert begun.sdm_opt_in is not admin, "with a conductor the file of rpc.admin-state is not read"
