"""Results of a one-shot stage to a descriptor whose reader may be slow, without holding up the event loop."""

import asyncio
import os
import sys

from rollup_node.ipc.activity import FAILED_AND_TOLD, Finished


async def write_text(descriptor: int, text: str) -> None:
    """Writes everything, however slow the reader is. Finished, when the reader has gone or there is no room: the second
    is told on standard error."""
    try:
        if text:
            await asyncio.to_thread(_write_all, descriptor, text.encode())
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"rollup-node: cannot write the results: {error.strerror}", file=sys.stderr)
        raise Finished(FAILED_AND_TOLD) from None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
