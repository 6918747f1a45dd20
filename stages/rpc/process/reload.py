"""`admin_reload`: asks the supervisor to read the options again, and waits for what came of it [RPC99]."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from rollup_node.stages.io.files.private_files import read_private_file
from rollup_node.stages.io.task import ReloadResult
from rollup_node.stages.protocol.errors import DECODE_ERRORS, SERVER_ERROR
from rollup_node.stages.rpc.jsonrpc import JsonRpcError

LOOK_SECONDS = 0.05
WAIT_SECONDS = 30.0
"""More than the checks of new endpoints take."""
MAX_FILE = 1 << 20


async def reload_options(file: str) -> ReloadResult:
    """Return the result that the supervisor, our parent, writes into `file`; empty where there is none.

    Raises JsonRpcError if it refuses."""
    if not file:
        raise JsonRpcError(SERVER_ERROR, "this program has nothing to read again")
    began = time.monotonic()
    os.kill(os.getppid(), signal.SIGUSR1)
    while time.monotonic() < began + WAIT_SECONDS:
        with suppress(OSError, *DECODE_ERRORS):
            result = msgspec.json.decode(read_private_file(Path(file), MAX_FILE), type=ReloadResult)
            if result.began >= began:
                if result.error:
                    raise JsonRpcError(SERVER_ERROR, f"reload refused, nothing is changed: {result.error}")
                return result
        await asyncio.sleep(LOOK_SECONDS)
    raise JsonRpcError(SERVER_ERROR, f"the reload has not ended within {WAIT_SECONDS:g} s: see the log")
