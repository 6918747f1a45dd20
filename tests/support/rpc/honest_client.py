"""An honest client of the rpc process, while something attacks the node."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from tests.support.processes.programs import call, http_get
from tests.support.timing.stopwatch import Stopwatch

T = TypeVar("T")
HEALTH_SECONDS = 1.0
STATUS_SECONDS = 2.0
"""The longest waits that docs/security.md allows."""


class HonestClient:
    """Asks over new connections.

    `health` and `status` are the longest times that it has waited, in seconds; what does not count is the time for
    which other programs on a busy machine kept the server, or the client itself, from running."""

    def __init__(self, port: int, server: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._server = server
        self.health = self.status = 0.0

    def ask(self) -> dict[str, Any]:
        """Asks for health and for the sync status, which is returned."""
        (code, _), seconds = self._timed(lambda: http_get(f"{self._url}/healthz", 20))
        assert code == 200
        self.health = max(self.health, seconds)
        status: dict[str, Any]
        status, seconds = self._timed(lambda: call(self._url, "optimism_syncStatus", seconds=20))
        self.status = max(self.status, seconds)
        return status

    def _timed(self, action: Callable[[], T]) -> tuple[T, float]:
        stopwatch = Stopwatch(self._server, os.getpid())
        return action(), stopwatch.seconds
