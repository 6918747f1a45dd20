"""The file of `rpc.admin-state`, which keeps over restarts of the node whether an operator started or stopped the
sequencer, and the SDM opt-in [ADM1 to ADM5]."""

import errno
import os
from pathlib import Path

import msgspec

from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.texts import one_line

MAX_BYTES = 1 << 16

log = get_logger("engine")


class AdminStateError(Exception):
    """The file cannot be used; the text is one line that says why."""


class AdminState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """What is stored; None for what is not."""

    sequencer_started: bool | None = None
    sdm_post_exec_opt_in: bool | None = None


class AdminStateFile:
    """A JSON object. It is replaced by rename, so that it is whole whenever the node or the machine fails. `_last` is
    what was last read or stored."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._last = AdminState()

    def load(self) -> AdminState:
        """What is stored; nothing for a missing file. Raises AdminStateError when it cannot be read [ADM1]."""
        self._last = self._read()
        return self._last

    def store(self, *, started: bool | None = None, sdm_opt_in: bool | None = None) -> None:
        """Stores what is given, whether the sequencer is started or the SDM opt-in, and keeps the other; it is on disk
        when this returns. A file that cannot be read is overwritten. Raises AdminStateError when it cannot be written
        [ADM2, ADM5]."""
        try:
            self.load()
        except AdminStateError as error:
            text = "the file of rpc.admin-state cannot be read and is overwritten"
            log.warn(text, code=Code.SEQUENCER_STATE.text, error=str(error))
        given = {"sequencer_started": started, "sdm_post_exec_opt_in": sdm_opt_in}
        wanted = msgspec.structs.replace(
            self._last, **{key: value for key, value in given.items() if value is not None}
        )
        try:
            self._write(msgspec.json.encode(wanted) + b"\n")
        except OSError as error:
            raise AdminStateError(f"cannot write {self._path}: {error.strerror}") from None
        self._last = wanted

    def _read(self) -> AdminState:
        try:
            # A pipe without a writer must not hold up the start.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            with open(self._path, "rb", opener=lambda path, _: os.open(path, flags)) as file:
                text = file.read(MAX_BYTES + 1) or b""
            if len(text) > MAX_BYTES:
                raise AdminStateError(f"invalid config file ({self._path}): more than {MAX_BYTES} bytes")
            return msgspec.json.decode(text, type=AdminState)
        except FileNotFoundError:
            return AdminState()
        except OSError as error:
            raise AdminStateError(f"invalid config file ({self._path}): {error.strerror}") from None
        except DECODE_ERRORS as error:
            raise AdminStateError(f"invalid config file ({self._path}): {one_line(str(error))}") from None

    def _write(self, text: bytes) -> None:
        folder, fresh = self._path.absolute().parent, self._path.with_name(f"{self._path.name}.tmp")
        _make_folder(folder)
        # Whatever is there under this name, a link of somebody else say, is not written through.
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(fresh, "wb", opener=lambda path, _: os.open(path, flags, 0o644)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)
        _sync_folder(folder)


def _make_folder(folder: Path) -> None:
    """Makes a folder and those above it, each an entry on disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o755, exist_ok=True)
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    """A rename is on disk once the folder is. Some file systems do not sync folders, and some folders may be written to
    but not read: neither may keep a sequencer from being stopped."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EACCES):
            raise
