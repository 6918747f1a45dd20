"""How many L1 blocks a request asks for, and which: few requests run at once, so over a distance each has several."""

from collections.abc import Sequence

from rollup_node.stages.l1.prefetch_window import Fetch

WANTED_RATE = 300.0
"""Blocks a second, more than a fast machine derives from."""

MAX_BLOCKS = 8

SLOW_SECONDS = 1.0
"""An answer that takes longer waits for the bandwidth or the server, so that longer ones would only time out."""


def blocks_per_request(latency: float | None, concurrency: int, max_batch: int) -> int:
    """Return how many blocks each of `concurrency` requests at once has to bring for WANTED_RATE.

    `latency` is the seconds that one takes, None if unknown."""
    if latency is None or latency > SLOW_SECONDS:
        return 1
    return max(1, min(round(WANTED_RATE * latency / concurrency), MAX_BLOCKS, max_batch))


def grouped(fetches: Sequence[Fetch], requests: int) -> list[Sequence[Fetch]]:
    """Return the fetches, the most urgent first, as so many requests at most.

    The first one alone if there are two or more."""
    if len(fetches) <= requests:
        return [(fetch,) for fetch in fetches]
    groups = [fetches[:1]] if requests > 1 else []
    rest = fetches[len(groups) :]
    size = -(-len(rest) // (requests - len(groups)))
    return groups + [rest[start : start + size] for start in range(0, len(rest), size)]
