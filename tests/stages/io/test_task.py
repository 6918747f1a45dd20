"""What a stage gives to the runtime."""

import pytest

from rollup_node.stages.io.task import ExitRequested, PeriodicTask


async def step() -> float:
    return 1.0


def test_each_task_has_a_wake_of_its_own() -> None:
    first, second = PeriodicTask("first", step), PeriodicTask("second", step)
    first.wake.set()
    assert first.wake.is_set() and not second.wake.is_set()


@pytest.mark.parametrize(("request_", "code"), [(ExitRequested(), 0), (ExitRequested(2), 2)])
def test_an_exit_request_has_a_code(request_: ExitRequested, code: int) -> None:
    assert request_.code == code
