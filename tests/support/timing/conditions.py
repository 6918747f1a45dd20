"""Waiting for conditions in tests of one event loop."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from tests.support.timing.slowness import within

T = TypeVar("T")


async def until(condition: Callable[[], T | None], seconds: float = 30.0) -> T:
    """Wait until a condition holds; returns its value. Raises TimeoutError when it does not within `seconds`."""
    begin = time.monotonic()
    while not (result := condition()):
        if not within(time.monotonic() - begin, seconds):
            raise TimeoutError
        await asyncio.sleep(0.005)
    return result
