"""The file of `rpc.admin-state`, which keeps over restarts of the node whether an operator started or stopped the
sequencer [ADM1 to ADM5]."""

import os
from pathlib import Path

import msgspec

MAX_BYTES = 1 << 16


class AdminStateError(Exception):
    """The file cannot be used; the text is one line that says why."""


class AdminState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """What is stored; None for what is not. `sdm_post_exec_opt_in` is kept as it is found."""

    sequencer_started: bool | None = None
    sdm_post_exec_opt_in: bool | None = None


class AdminStateFile:
    """A JSON object. It is replaced by rename, so that it is whole whenever the node or the machine fails."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load(self) -> AdminState:
        """What is stored; nothing for a missing file. Raises AdminStateError when it cannot be read [ADM1]."""
        try:
            # A pipe without a writer must not hold up the start.
            with open(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                text = file.read(MAX_BYTES + 1) or b""
            if len(text) > MAX_BYTES:
                raise AdminStateError(f"invalid config file ({self._path}): more than {MAX_BYTES} bytes")
            return msgspec.json.decode(text, type=AdminState)
        except FileNotFoundError:
            return AdminState()
        except OSError as error:
            raise AdminStateError(f"invalid config file ({self._path}): {error.strerror}") from None
        except msgspec.MsgspecError as error:
            raise AdminStateError(f"invalid config file ({self._path}): {error}") from None

    def store(self, started: bool) -> None:
        """Stores whether the sequencer is started; it is on disk when this returns. Raises AdminStateError [ADM2]."""
        found = msgspec.structs.replace(self.load(), sequencer_started=started)
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        try:
            self._path.absolute().parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(fresh, flags, 0o644), "wb") as file:
                file.write(msgspec.json.encode(found) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
        except OSError as error:
            raise AdminStateError(f"cannot write {self._path}: {error.strerror}") from None
