"""Needs are repeated, but not without pause."""

from rollup_node.stages.derivation.process.throttle import Throttle


def test_pacer_repeats_after_its_interval() -> None:
    pacer = Throttle(0.3)
    assert pacer.is_due("a", 1, 10.0)
    assert not pacer.is_due("a", 1, 10.2)
    assert pacer.is_due("a", 2, 10.2), "something new is said at once"
    assert pacer.is_due("a", 2, 10.5)
    pacer.retain({"b"})
    assert pacer.is_due("a", 2, 10.5)
