"""Messages are sent again after the interval, new ones at once."""

from rollup_node.stages.derivation.process.throttle import Throttle


def test_a_message_is_repeated_after_the_interval() -> None:
    throttle = Throttle(1.0)
    assert throttle.is_due("a", "message", 0.0)
    assert not throttle.is_due("a", "message", 0.9)
    assert throttle.is_due("a", "another", 0.9)
    assert throttle.is_due("b", "another", 0.9)
    assert throttle.is_due("a", "another", 2.0)


def test_discarded_names_are_due() -> None:
    throttle = Throttle(1.0)
    for name in ("a", "b"):
        throttle.is_due(name, "message", 0.0)
    throttle.retain({"a"})
    assert not throttle.is_due("a", "message", 0.5)
    assert throttle.is_due("b", "message", 0.5)
    throttle.clear()
    assert throttle.is_due("a", "message", 0.5)
