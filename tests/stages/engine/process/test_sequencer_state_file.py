"""What is set about the sequencer outlives the engine process."""

from pathlib import Path

import pytest

from rollup_node.stages.engine.process.sequencer_state_file import MAX_BYTES, SequencerState, SequencerStateFile

STATES = tuple(SequencerState(active, recover) for active in (None, False, True) for recover in (None, False, True))


def test_the_last_state_is_kept(tmp_path: Path) -> None:
    """[ADM7]"""
    path = str(tmp_path / "sequencer.state")
    file = SequencerStateFile(path)
    assert file.load() == SequencerState()
    for state in STATES:
        file.store(state)
        assert SequencerStateFile(path).load() == state
    assert [each.name for each in tmp_path.iterdir()] == ["sequencer.state"]


@pytest.mark.parametrize(
    "text", ["stop", '{"a\xd3tive":true}', "{", '{"active":1}', '{"other":true}', " " * MAX_BYTES + '{"active":true}']
)
def test_a_damaged_file_has_nothing(tmp_path: Path, text: str) -> None:
    damaged = tmp_path / "state"
    damaged.write_text(text, encoding="latin-1")
    assert SequencerStateFile(str(damaged)).load() == SequencerState()


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SequencerStateFile(str(tmp_path / "missing" / "state")).store(SequencerState(active=False))
