"""Waiting for conditions in tests of one event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], T | None], seconds: float = 30.0) -> T:
    """Wait until a condition holds; returns its value. Raises TimeoutError when it does not within `seconds`."""
    async with asyncio.timeout(seconds):
        while not (result := condition()):
            await asyncio.sleep(0.005)
        return result
