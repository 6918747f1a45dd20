"""Needs are repeated, but not without pause."""

from rollup_node.stages.derivation.process.throttle import Pacer


def test_pacer_repeats_after_its_interval() -> None:
    pacer = Pacer(0.3)
    assert pacer.due("a", 1, 10.0)
    assert not pacer.due("a", 1, 10.2)
    assert pacer.due("a", 2, 10.2), "something new is said at once"
    assert pacer.due("a", 2, 10.5)
    pacer.keep({"b"})
    assert pacer.due("a", 2, 10.5)
