"""Sums of equal stacks, and the profile of a node from those of its processes."""

from pathlib import Path

import pytest

from rollup_node.stages.io.profiling import profile
from rollup_node.stages.io.profiling.profile import (
    AT_STOP,
    OTHER,
    Profile,
    ProfileFiles,
    ProfileRequest,
    Sample,
    StackTable,
    encode,
    merge,
    render_text,
)
from tests.support.rpc.pprof_decoder import decode

A, B = (("f", "a.py", 1),), (("g", "b.py", 2), ("f", "a.py", 1))
TYPES = (("samples", "count"), ("cpu", "nanoseconds"))


def test_equal_stacks_are_summed_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "MAX_STACKS", 3)
    table = StackTable()
    for stack, labels in ((A, ()), (B, ()), (A, ()), (A, (("thread", "x"),))):
        table.add(stack, (1, 10), labels)
    expected = (Sample(A, (2, 20)), Sample(B, (1, 10)), Sample(A, (1, 10), (("thread", "x"),)))
    assert table.samples() == expected
    for line in range(6, 9):
        table.add((("f", "a.py", line),), (1, 1))
    assert table.samples() == (*expected, Sample(OTHER, (3, 3)))


def test_processes_become_labels() -> None:
    one = Profile("cpu", TYPES, (Sample(A, (1, 10), (("thread", "x"),)),), TYPES[1], 5, 100, 7, ("c",))
    two = Profile("cpu", TYPES, (Sample(B, (2, 20)),), TYPES[1], 5, 90, 9, ("c",))
    other = Profile("mutex", (("contentions", "count"),))
    merged = merge({"l1": one, "engine": two, "p2p": other}, ("rpc",))
    assert merged is not None
    assert merged.samples == (
        Sample(A, (1, 10), (("process", "l1"), ("thread", "x"))),
        Sample(B, (2, 20), (("process", "engine"),)),
    )
    assert (merged.began, merged.duration, merged.comments) == (90, 9, ("c", "no profile of: rpc"))
    assert merge({}, ("rpc",)) is None


LEAF, ROOT = ("leaf", "/x/a.py", 300), ("root", "/x/b.py", 0)
PROFILE = Profile(
    "cpu",
    (("samples", "count"), ("cpu", "nanoseconds")),
    (
        Sample((LEAF, ROOT), (3, 30_000_000), (("process", "l1"), ("thread", "MainThread"))),
        Sample((ROOT,), (1, 1 << 40)),
        Sample((("leaf", "/x/a.py", 301),), (0, 0)),
    ),
    ("cpu", "nanoseconds"),
    10_000_000,
    1_700_000_000_000_000_000,
    2_000_000_000,
    ("first", "second"),
)


def test_a_profile_is_read_back() -> None:
    result = decode(encode(PROFILE))
    assert result.sample_types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert result.samples == [
        ([LEAF, ROOT], [3, 30_000_000], {"process": "l1", "thread": "MainThread"}),
        ([ROOT], [1, 1 << 40], {}),
        ([("leaf", "/x/a.py", 301)], [0, 0], {}),
    ]
    assert result.comments == ["first", "second"] and result.period_type == ("cpu", "nanoseconds")
    assert result.numbers == {9: 1_700_000_000_000_000_000, 10: 2_000_000_000, 12: 10_000_000}


def test_a_profile_as_text() -> None:
    lines = render_text(PROFILE).splitlines()
    assert lines[0] == f"cpu profile: samples (count), cpu (nanoseconds); total 4 {(1 << 40) + 30_000_000}"
    assert lines[1:3] == ["# first", "# second"]
    assert lines[4:6] == [f"1 {1 << 40}", "    root  /x/b.py:0"], "the largest comes first"
    assert lines[7] == "3 30000000 process=l1 thread=MainThread"


def test_a_request_and_its_answers(tmp_path: Path) -> None:
    """Unreadable files count as absent."""
    files = ProfileFiles(tmp_path)
    assert files.requested_at() == 0 and files.read_request() is None
    files.request(ProfileRequest(7, "heap", 1.5))
    assert files.requested_at() > 0 and files.read_request() == ProfileRequest(7, "heap", 1.5)
    files.answer(AT_STOP, "l1", PROFILE)
    files.answer(7, "l1", PROFILE)
    assert files.read_answer(7, "l1") == files.read_answer(AT_STOP, "l1") == PROFILE
    assert files.read_answer(7, "engine") is None and files.read_answer(8, "l1") is None
    files.request(ProfileRequest(8, "heap", 1.5))
    assert files.read_answer(7, "l1") is None, "old answers are removed"
    assert files.read_answer(AT_STOP, "l1") == PROFILE
    (tmp_path / "request.profile").write_bytes(b"\x93\x01")
    (tmp_path / "7.l1.profile").write_bytes(b"nonsense")
    (tmp_path / "7.p2p.profile").mkdir()
    assert files.read_request() is None
    assert files.read_answer(7, "l1") is None and files.read_answer(7, "p2p") is None
    gone = ProfileFiles(tmp_path / "gone")
    gone.answer(1, "l1", PROFILE)
    assert gone.requested_at() == 0
