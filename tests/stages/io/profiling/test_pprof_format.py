"""pprof's protobuf, read back by the numbers of its fields [LIF17]."""

from rollup_node.stages.io.profiling.pprof_format import encode, render_text
from rollup_node.stages.io.profiling.profile import Profile, Sample
from tests.support.rpc.pprof_decoder import decode

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
    found = decode(encode(PROFILE))
    assert found.sample_types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert found.samples == [
        ([LEAF, ROOT], [3, 30_000_000], {"process": "l1", "thread": "MainThread"}),
        ([ROOT], [1, 1 << 40], {}),
        ([("leaf", "/x/a.py", 301)], [0, 0], {}),
    ]
    assert found.comments == ["first", "second"] and found.period_type == ("cpu", "nanoseconds")
    assert found.numbers == {9: 1_700_000_000_000_000_000, 10: 2_000_000_000, 12: 10_000_000}


def test_a_profile_without_samples_is_valid() -> None:
    found = decode(encode(Profile("mutex", (("contentions", "count"),))))
    assert found.samples == [] and found.sample_types == [("contentions", "count")]


def test_a_profile_as_text() -> None:
    lines = render_text(PROFILE).splitlines()
    assert lines[0] == f"cpu profile: samples (count), cpu (nanoseconds); total 4 {(1 << 40) + 30_000_000}"
    assert lines[1:3] == ["# first", "# second"]
    assert lines[4:6] == [f"1 {1 << 40}", "    root  /x/b.py:0"], "the largest comes first"
    assert lines[7] == "3 30000000 process=l1 thread=MainThread"
