"""What the admin calls said outlives the engine process."""

from pathlib import Path

from rollup_node.stages.engine.process.sequencer_state_file import SequencerMemory


def test_the_last_word_is_remembered(tmp_path: Path) -> None:
    path = str(tmp_path / "sequencer.state")
    memory = SequencerMemory(path)
    assert not memory.stopped(otherwise=False)
    assert memory.stopped(otherwise=True)
    memory.note(active=False)
    assert SequencerMemory(path).stopped(otherwise=False)
    memory.note(active=True)
    assert not SequencerMemory(path).stopped(otherwise=True)
    assert [file.name for file in tmp_path.iterdir()] == ["sequencer.state"]


def test_without_a_path_or_with_a_damaged_file_the_option_rules(tmp_path: Path) -> None:
    nowhere = SequencerMemory("")
    nowhere.note(active=False)
    assert not nowhere.stopped(otherwise=False)
    damaged = tmp_path / "state"
    damaged.write_bytes(b"stop")
    assert not SequencerMemory(str(damaged)).stopped(otherwise=False)


def test_a_place_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    memory = SequencerMemory(str(tmp_path / "missing" / "state"))
    memory.note(active=False)
    assert not memory.stopped(otherwise=False)
