"""Where the profile of `pprof.type` goes [LIF19]."""

from pathlib import Path

import pytest

from rollup_node.node.system.profiling import ProfilingSettings, profile_path, write_profile
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.io.profiling.profile import AT_STOP, Profile, ProfileFiles, Sample
from tests.support.rpc.pprof_decoder import decode


def test_the_file_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert profile_path(None, "cpu") == tmp_path / "cpu.prof"
    assert profile_path("folder", "heap") == tmp_path / "folder" / "heap.prof"
    assert profile_path(f"{tmp_path}/folder/", "heap") == tmp_path / "folder" / "heap.prof"
    assert profile_path("folder/mine", "heap") == tmp_path / "folder" / "mine"
    assert profile_path("absent/mine.prof", "cpu") == tmp_path / "absent" / "mine.prof"


PROFILE = Profile("heap", (("inuse_space", "bytes"),), (Sample((("f", "a.py", 1),), (5,)),))


@pytest.fixture
def messages() -> list[str]:
    result: list[str] = []

    def take(record: Record) -> None:
        result.append(record.message)

    log.configure("supervisor", Level.INFO, take, None)
    return result


def test_the_profiles_of_processes_become_one(tmp_path: Path, messages: list[str]) -> None:
    ProfileFiles(tmp_path).answer(AT_STOP, "l1", PROFILE)
    settings = ProfilingSettings(kind="heap", path=tmp_path / "heap.prof")
    write_profile(settings, tmp_path, ("l1", "engine"))
    result = decode((tmp_path / "heap.prof").read_bytes())
    assert result.samples == [([("f", "a.py", 1)], [5], {"process": "l1"})]
    assert result.comments == ["no profile of: engine"] and messages == ["wrote the profile"]


def test_what_cannot_be_written_is_logged(tmp_path: Path, messages: list[str]) -> None:
    write_profile(ProfilingSettings(), tmp_path, ("l1",))
    settings = ProfilingSettings(kind="heap", path=tmp_path / "absent" / "heap.prof")
    write_profile(settings, tmp_path, ("l1",))
    ProfileFiles(tmp_path).answer(AT_STOP, "l1", PROFILE)
    write_profile(settings, tmp_path, ("l1",))
    assert messages == ["no process wrote its profile", "cannot write the profile"]
