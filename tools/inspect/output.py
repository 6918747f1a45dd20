"""Writing the results of a one-shot stage to a descriptor whose reader may be slow, without blocking the event loop."""

import asyncio
import os
import sys

from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested


async def write_text(descriptor: int, text: str) -> None:
    """Write all of `text`, however long the reader takes.

    Raises ExitRequested when the reader is gone or the device is full; the latter is reported on standard error."""
    try:
        if text:
            await asyncio.to_thread(write_all, descriptor, text.encode())
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"rollup-node: cannot write the results: {error.strerror}", file=sys.stderr)
        raise ExitRequested(EXIT_REPORTED) from None


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
