"""The server of a recording of L1 in a thread: `with recorded_server(recording) as url`."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import serving


@contextmanager
def recorded_server(recording: Path | Recording, blobs_endpoint: bool = True) -> Iterator[str]:
    """Yield the URL of the L1 and the Beacon API of a recording or of one's folder, without the route of blobs on
    request."""
    recorded = recording if isinstance(recording, Recording) else Recording.load(recording)
    loop, stopped, started, urls = asyncio.new_event_loop(), asyncio.Event(), threading.Event(), list[str]()

    async def serve() -> None:
        async with serving(recorded, 0, blobs_endpoint) as url:
            urls.append(url)
            started.set()
            await stopped.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(30)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()
