"""The files by which processes exchange profiles."""

from pathlib import Path

from rollup_node.stages.io.profiling.profile import Profile, ProfileRequest, Sample
from rollup_node.stages.io.profiling.profile_files import ProfileFiles

PROFILE = Profile("cpu", (("samples", "count"),), (Sample((("f", "a.py", 1),), (1,)),))


def test_a_request_and_its_answers(tmp_path: Path) -> None:
    files = ProfileFiles(tmp_path)
    assert files.requested_at() == 0 and files.read_request() is None
    files.request(ProfileRequest(7, "heap", 1.5))
    assert files.requested_at() > 0 and files.read_request() == ProfileRequest(7, "heap", 1.5)
    files.write_last("l1", PROFILE)
    files.answer(7, "l1", PROFILE)
    assert files.read_answer(7, "l1") == files.read_last("l1") == PROFILE
    assert files.read_answer(7, "engine") is None and files.read_answer(8, "l1") is None
    files.request(ProfileRequest(8, "heap", 1.5))
    assert files.read_answer(7, "l1") is None, "old answers are removed"
    assert files.read_last("l1") == PROFILE


def test_unreadable_files_count_as_absent(tmp_path: Path) -> None:
    files = ProfileFiles(tmp_path)
    (tmp_path / "request.profile").write_bytes(b"\x93\x01")
    (tmp_path / "7.l1.profile").write_bytes(b"nonsense")
    (tmp_path / "7.p2p.profile").mkdir()
    assert files.read_request() is None
    assert files.read_answer(7, "l1") is None and files.read_answer(7, "p2p") is None
    gone = ProfileFiles(tmp_path / "gone")
    gone.answer(1, "l1", PROFILE)
    assert gone.requested_at() == 0
