"""The profiles of one process: those that the rpc process requests, and the one that is written at the stop [LIF16,
LIF18]."""

import asyncio
from pathlib import Path

from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.profiling.profile_files import ProfileFiles
from rollup_node.stages.io.profiling.recordings import Recording, new_recording

LOOK_SECONDS = 0.25

log = get_logger("runtime")


class ProcessProfiles:
    """`folder` is that of the profiles in the runtime directory. A restarted process begins its profile again, and does
    not answer a request from before."""

    def __init__(self, settings: ProfilingSettings, folder: Path, process: str) -> None:
        self._settings, self._process = settings, process
        self._files = ProfileFiles(folder)
        self._until_stop: Recording | None = None

    def begin(self) -> None:
        """Begins the profile that is written at the stop, if there is one."""
        if self._settings.kind is not None:
            self._until_stop = new_recording(self._settings.kind)
            self._until_stop.begin()

    def end(self) -> None:
        """Writes it."""
        if self._until_stop is not None:
            self._files.write_last(self._process, self._until_stop.end())

    async def serve(self) -> None:
        """Answers one request after the other, until it is cancelled; returns at once when profiles are not served."""
        last = self._files.requested_at()
        while self._settings.is_served:
            await asyncio.sleep(LOOK_SECONDS)
            at = self._files.requested_at()
            if at != last:
                last = at
                await self._answer()

    async def _answer(self) -> None:
        request = self._files.read_request()
        if request is None:
            return
        log.debug("profiling", kind=request.kind, seconds=request.seconds)
        recording = new_recording(request.kind)
        recording.begin()
        try:
            await asyncio.sleep(request.seconds)
        finally:
            profile = recording.end()
        self._files.answer(request.id, self._process, profile)
