"""Whether the sequencer was started or stopped outlives the engine process."""

from pathlib import Path

from rollup_node.stages.engine.process.sequencer_state_file import SequencerStateFile


def test_the_last_state_is_stored(tmp_path: Path) -> None:
    path = str(tmp_path / "sequencer.state")
    file = SequencerStateFile(path)
    assert not file.is_stopped(default=False)
    assert file.is_stopped(default=True)
    file.store(active=False)
    assert SequencerStateFile(path).is_stopped(default=False)
    file.store(active=True)
    assert not SequencerStateFile(path).is_stopped(default=True)
    assert [each.name for each in tmp_path.iterdir()] == ["sequencer.state"]


def test_without_a_path_or_with_a_damaged_file_the_option_rules(tmp_path: Path) -> None:
    nowhere = SequencerStateFile("")
    nowhere.store(active=False)
    assert not nowhere.is_stopped(default=False)
    damaged = tmp_path / "state"
    damaged.write_bytes(b"stop")
    assert not SequencerStateFile(str(damaged)).is_stopped(default=False)


def test_a_place_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    file = SequencerStateFile(str(tmp_path / "missing" / "state"))
    file.store(active=False)
    assert not file.is_stopped(default=False)
