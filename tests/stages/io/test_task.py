"""Periodic tasks and the end of one-shot stages."""

from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested, PeriodicTask


async def step() -> float:
    return 1.0


def test_every_task_has_a_wake_event_of_its_own() -> None:
    first, second = PeriodicTask("first", step), PeriodicTask("second", step)
    first.wake.set()
    assert not second.wake.is_set()


def test_an_exit_carries_its_code() -> None:
    assert ExitRequested().code == 0
    assert ExitRequested(EXIT_REPORTED).code == 2
