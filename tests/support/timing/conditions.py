"""Waiting for conditions in tests of one event loop."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until the condition holds. Raises TimeoutError when it does not within `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
