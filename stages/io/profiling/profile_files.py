"""The files in the runtime directory by which the processes of a node exchange profiles.

There is one request for all, one answer of each process, and one profile of each process at its end."""

import contextlib
import os
from pathlib import Path

import msgspec

from rollup_node.stages.io.files.private_files import read_private_file, replace_private_file
from rollup_node.stages.io.profiling.profile import Profile, ProfileRequest
from rollup_node.stages.protocol.errors import DECODE_ERRORS

MAX_BYTES = 64 << 20
SUFFIX = ".profile"
_REQUEST = f"request{SUFFIX}"
_AT_STOP = 0


class ProfileFiles:
    """The folder. Files that are missing, unreadable or of another form count as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def request(self, request: ProfileRequest) -> None:
        """Ask all processes for a profile, in place of any earlier request. Raises OSError."""
        self.withdraw()
        replace_private_file(self._folder / _REQUEST, msgspec.msgpack.encode(request))

    def withdraw(self) -> None:
        """Remove the request, so that processes stop recording, and all answers. Raises OSError."""
        (self._folder / _REQUEST).unlink(missing_ok=True)
        for path in self._folder.glob(f"[1-9]*.*{SUFFIX}"):
            path.unlink(missing_ok=True)

    def requested_at(self) -> int:
        """When the last request was made, in nanoseconds, 0 if there is none: cheaper than reading it."""
        try:
            return os.stat(self._folder / _REQUEST).st_mtime_ns
        except OSError:
            return 0

    def read_request(self) -> ProfileRequest | None:
        with contextlib.suppress(OSError, *DECODE_ERRORS):
            return msgspec.msgpack.decode(read_private_file(self._folder / _REQUEST, 1 << 10), type=ProfileRequest)
        return None

    def answer(self, request_id: int, process: str, profile: Profile) -> None:
        """Write a profile, without samples if it is over MAX_BYTES; a folder that no longer exists is ignored."""
        encoded = msgspec.msgpack.encode(profile)
        if len(encoded) > MAX_BYTES:
            left_out = f"the samples of {process} are left out: {len(encoded)} bytes, more than {MAX_BYTES}"
            shortened = msgspec.structs.replace(profile, samples=(), comments=(*profile.comments, left_out))
            encoded = msgspec.msgpack.encode(shortened)
        with contextlib.suppress(OSError):
            replace_private_file(self._path(request_id, process), encoded)

    def remove_answer(self, request_id: int, process: str) -> None:
        """Remove an answer that nobody waits for any more."""
        with contextlib.suppress(OSError):
            self._path(request_id, process).unlink()

    def read_answer(self, request_id: int, process: str) -> Profile | None:
        with contextlib.suppress(OSError, *DECODE_ERRORS):
            return msgspec.msgpack.decode(read_private_file(self._path(request_id, process), MAX_BYTES), type=Profile)
        return None

    def write_last(self, process: str, profile: Profile) -> None:
        self.answer(_AT_STOP, process, profile)

    def read_last(self, process: str) -> Profile | None:
        return self.read_answer(_AT_STOP, process)

    def _path(self, request_id: int, process: str) -> Path:
        return self._folder / f"{request_id}.{process}{SUFFIX}"
