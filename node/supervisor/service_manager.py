"""The supervisor's side of a service manager: when the node is ready, reloads, stops, and that it is alive [LIF36]."""

import os
import time
from collections.abc import Mapping

from rollup_node.stages.io.system import tell_service_manager


class ServiceManager:
    """Tells the service manager of this process, if there is one, the state of the node."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        microseconds = environ.get("WATCHDOG_USEC", "")
        is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._period = int(microseconds) / 2e6 if microseconds.isdecimal() and is_ours else None
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Say that the supervisor is alive, twice in the time that it has for it; `now` is monotonic time."""
        if self._period is not None and now >= self._due:
            self._due = now + self._period
            tell_service_manager("WATCHDOG=1")

    def ready(self, processes: int) -> None:
        """Say that all processes are ready, after a start or a reload."""
        tell_service_manager("READY=1", f"STATUS=all {processes} processes are ready")

    def reloading(self) -> None:
        """Say that the options are read again, which `ready` ends."""
        tell_service_manager("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that the node stops."""
        tell_service_manager("STOPPING=1", "STATUS=stopping")
