"""Sums of equal stacks, and the profile of a node from those of its processes."""

from rollup_node.stages.io.profiling import profile
from rollup_node.stages.io.profiling.profile import OTHER, Profile, Sample, StackTable, merge

A, B = (("f", "a.py", 1),), (("g", "b.py", 2), ("f", "a.py", 1))
TYPES = (("samples", "count"), ("cpu", "nanoseconds"))


def test_equal_stacks_are_summed() -> None:
    table = StackTable()
    for stack, labels in ((A, ()), (B, ()), (A, ()), (A, (("thread", "x"),))):
        table.add(stack, (1, 10), labels)
    assert table.samples() == (Sample(A, (2, 20)), Sample(B, (1, 10)), Sample(A, (1, 10), (("thread", "x"),)))


def test_the_number_of_stacks_is_bounded(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(profile, "MAX_STACKS", 3)
    table = StackTable()
    for line in range(6):
        table.add((("f", "a.py", line),), (1,))
    found = table.samples()
    assert len(found) == 4 and found[-1] == Sample(OTHER, (3,))


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
