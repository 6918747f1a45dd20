"""How many requests an L1 block costs."""

from rollup_node.stages.l1.requests_per_block import WINDOW, RequestsPerBlock


def test_the_mean_of_the_last_blocks() -> None:
    mean = RequestsPerBlock()
    assert mean.add(1, 5) == 5.0
    assert mean.add(3, 8) == 2.0
    requests = 8
    for _ in range(WINDOW):
        requests += 3
        found = mean.add(1, requests)
    assert found == 3.0


def test_a_step_larger_than_the_window() -> None:
    mean = RequestsPerBlock()
    mean.add(1, 100)
    assert mean.add(10 * WINDOW, 100 + 20 * WINDOW) == 2.0
