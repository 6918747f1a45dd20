"""Where the profile of `pprof.type` goes [LIF19]."""

from pathlib import Path

import pytest

from rollup_node.node.system.profiling import profile_path


def test_the_file_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert profile_path(None, "cpu") == tmp_path / "cpu.prof"
    assert profile_path("folder", "heap") == tmp_path / "folder" / "heap.prof"
    assert profile_path(f"{tmp_path}/folder/", "heap") == tmp_path / "folder" / "heap.prof"
    assert profile_path("folder/mine", "heap") == tmp_path / "folder" / "mine"
    assert profile_path("absent/mine.prof", "cpu") == tmp_path / "absent" / "mine.prof"
