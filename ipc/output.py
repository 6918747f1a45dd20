"""Text to a descriptor whose reader may be slow, without holding up the event loop."""

import asyncio
import os


async def write_text(descriptor: int, text: str) -> None:
    """Writes everything, however slow the reader is."""
    if text:
        await asyncio.to_thread(_write_all, descriptor, text.encode())


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
