"""What a stage gives to the runtime."""

import pytest

from rollup_node.stages.io.task import PUBLISH_SECONDS, ExitRequested, PacedPublisher, PeriodicTask
from rollup_node.stages.messages.base import Message, QueueLength


async def step() -> float:
    return 1.0


def test_each_task_has_a_wake_of_its_own() -> None:
    first, second = PeriodicTask("first", step), PeriodicTask("second", step)
    first.wake.set()
    assert first.wake.is_set() and not second.wake.is_set()


@pytest.mark.parametrize(("request_", "code"), [(ExitRequested(), 0), (ExitRequested(2), 2)])
def test_an_exit_request_has_a_code(request_: ExitRequested, code: int) -> None:
    assert request_.code == code


def test_states_are_published_once_a_second() -> None:
    """[RPC94]"""
    now, published, waiting = 5.0, list[Message](), list[int]()
    publisher = PacedPublisher(published.append, lambda: now)
    for _ in range(3):
        waiting.append(1)
        publisher.step(lambda: QueueLength(len(waiting), 0), lambda: None)
    now += PUBLISH_SECONDS
    publisher.step(lambda: QueueLength(len(waiting), 1))
    assert published == [QueueLength(1, 0), QueueLength(3, 1)]
