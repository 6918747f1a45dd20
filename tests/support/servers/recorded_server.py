"""The server of a recording of L1 in a thread: `with recorded_server(recording) as url`."""

from contextlib import AbstractContextManager
from pathlib import Path

from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import serving
from tests.support.servers.threads import in_thread


def recorded_server(recording: Path | Recording, blobs_endpoint: bool = True) -> AbstractContextManager[str]:
    """Yield the URL of the L1 and the Beacon API of a recording or of one's folder, without the route of blobs on
    request."""
    recorded = recording if isinstance(recording, Recording) else Recording.load(recording)
    return in_thread(serving(recorded, 0, blobs_endpoint))
