"""The profiles of one process, requested by the rpc process or written at the stop [LIF16, LIF18]."""

import asyncio
import time
from pathlib import Path

from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.profiling.profile import MAX_SECONDS, ProfileRequest
from rollup_node.stages.io.profiling.profile_files import ProfileFiles
from rollup_node.stages.io.profiling.recordings import Recording, new_recording

LOOK_SECONDS = 0.25

log = get_logger("runtime")


class ProcessProfiles:
    """`folder` is that of the profiles; a restarted process begins again, and ignores earlier requests."""

    def __init__(self, settings: ProfilingSettings, folder: Path, process: str) -> None:
        self._settings, self._process = settings, process
        self._files = ProfileFiles(folder)
        self._until_stop: Recording | None = None

    def begin(self) -> None:
        """Begins the profile that is written at the stop, if there is one."""
        if self._settings.kind is not None:
            self._until_stop = new_recording(self._settings.kind)
            self._until_stop.begin()

    async def end(self) -> None:
        recording = self._until_stop
        if recording is not None:
            recording.end()
            await asyncio.to_thread(lambda: self._files.write_last(self._process, recording.profile()))

    async def serve(self) -> None:
        """Answers one request after the other, until it is cancelled; returns at once when profiles are not served."""
        last = self._files.requested_at()
        while self._settings.is_served:
            await asyncio.sleep(LOOK_SECONDS)
            at = self._files.requested_at()
            if at != last:
                last = at
                await self._answer(at)

    async def _answer(self, at: int) -> None:
        """Answers the request made at a time, unless it is withdrawn or replaced meanwhile."""
        request = self._files.read_request()
        if request is None or not 0 <= request.seconds <= MAX_SECONDS:
            return
        log.debug("profiling", kind=request.kind, seconds=request.seconds)
        recording = new_recording(request.kind)
        recording.begin()
        try:
            is_wanted = await self._wait(request.seconds, at)
        finally:
            recording.end()
        if is_wanted:
            # In a thread, since the loop owes its heartbeat to the watchdog.
            await asyncio.to_thread(self._write, request, recording, at)

    async def _wait(self, seconds: float, at: int) -> bool:
        """Wait until the recording is over; returns early with False when its request is no longer the last one."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, LOOK_SECONDS))
            if self._files.requested_at() != at:
                return False
        return True

    def _write(self, request: ProfileRequest, recording: Recording, at: int) -> None:
        self._files.answer(request.id, self._process, recording.profile())
        if self._files.requested_at() != at:
            self._files.remove_answer(request.id, self._process)
