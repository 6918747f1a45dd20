"""What a stage gives to the runtime."""

from rollup_node.stages.io.task import PUBLISH_SECONDS, PacedPublisher
from rollup_node.stages.messages.base import Message, QueueLength


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
