"""The generated inputs are repeatable and cover all kinds of files and damage."""

from pathlib import Path

from rollup_node.tools.fuzz.inputs import DAMAGES, Inputs, real_files


def test_inputs_are_repeatable() -> None:
    first, second = (Inputs(5, 200_000, 0, {}) for _ in range(2))
    assert [first.next() for _ in range(30)] == [second.next() for _ in range(30)]


def test_all_kinds_and_damages_occur() -> None:
    inputs = Inputs(1, 20_000, 100, {"blob": [b"recorded"] * 90})
    drawn = [inputs.next() for _ in range(300)]
    assert {current.kind for current in drawn} == {"data", "frames", "channel", "batch", "raw-span", "blob"}
    assert {current.damage for current in drawn} == set(DAMAGES)
    assert any(b"recorded" in current.files for current in drawn)
    assert any(len(current.files) == 2 for current in drawn)


def test_recorded_files_by_kind(shared_data: Path) -> None:
    files = real_files(shared_data)
    assert set(files) == {"channel", "data", "raw-span", "blob"}
    assert all(files.values())
    assert all(len(blob) == 131_072 for blob in files["blob"])
