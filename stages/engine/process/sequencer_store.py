"""The files that keep what admin calls set about the sequencer [ADM1 to ADM7].

One lives as long as the node: a restart of the engine process must not start a sequencer that was stopped, nor stop one
that was started, nor end recover mode. `rpc.admin-state` keeps over restarts of the node whether an operator started or
stopped the sequencer, and the SDM opt-in.
"""

import errno
import os
from pathlib import Path

import msgspec

from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.io.files.private_files import read_private_file, replace_private_file, why_unusable
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.texts import one_line

log = Logger("engine")
MAX_STATE_BYTES = 256

MAX_ADMIN_BYTES = 1 << 16


class SequencerState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """None for what no call has set."""

    active: bool | None = None
    recover: bool | None = None
    sdm_opt_in: bool | None = None


class SequencerStateFile:
    """A JSON object, which is replaced by rename. It outlives processes, not the machine, so it is not synced."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load(self) -> SequencerState:
        """Return what is kept; nothing for a missing file, and for one that cannot be read."""
        try:
            return msgspec.json.decode(read_private_file(self._path, MAX_STATE_BYTES), type=SequencerState)
        except FileNotFoundError:
            return SequencerState()
        except (OSError, *DECODE_ERRORS) as error:
            text = "the sequencer's state cannot be read: the options count"
            log.error(text, code=Code.SEQUENCER_STATE.text, file=self._path, error=str(error))
            return SequencerState()

    def store(self, state: SequencerState) -> None:
        """Keep a state. Raises OSError; what was kept before stays then."""
        replace_private_file(self._path, msgspec.json.encode(state))


class StoreFailedError(Exception):
    """A state could not be stored or read; the text is one line that says why."""


class AdminState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is stored; None for what is not."""

    active: bool | None = msgspec.field(default=None, name="sequencerStarted")
    sdm_opt_in: bool | None = msgspec.field(default=None, name="sdmPostExecOptIn")


class AdminStateFile:
    """A JSON object, replaced by rename, so that it is always whole; `_last` is what was last read or stored."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._last = AdminState()

    def load(self) -> AdminState:
        """Return what is stored; nothing for a missing file. Raises StoreFailedError when it cannot be read [ADM1]."""
        self._last = self._read()
        return self._last

    def store(self, **changes: bool) -> None:
        """Store fields of AdminState, on disk when this returns. Raises StoreFailedError [ADM2, ADM5]."""
        try:
            self.load()
        except StoreFailedError as error:
            text = "the file of rpc.admin-state cannot be read and is overwritten"
            log.warn(text, code=Code.SEQUENCER_STATE.text, error=str(error))
        wanted = msgspec.structs.replace(self._last, **changes)
        try:
            self._write(msgspec.json.encode(wanted) + b"\n")
        except OSError as error:
            raise StoreFailedError(f"cannot write {self._path}: {why_unusable(self._path, error)}") from None
        self._last = wanted

    def _read(self) -> AdminState:
        try:
            # A pipe without a writer must not hold up the start.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            with open(self._path, "rb", opener=lambda path, _: os.open(path, flags)) as file:
                text = file.read(MAX_ADMIN_BYTES + 1) or b""
            if len(text) > MAX_ADMIN_BYTES:
                raise StoreFailedError(f"invalid config file ({self._path}): more than {MAX_ADMIN_BYTES} bytes")
            return msgspec.json.decode(text, type=AdminState)
        except FileNotFoundError:
            return AdminState()
        except OSError as error:
            raise StoreFailedError(f"invalid config file ({self._path}): {error.strerror}") from None
        except DECODE_ERRORS as error:
            raise StoreFailedError(f"invalid config file ({self._path}): {one_line(str(error))}") from None

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
    """Make a folder and those above it, each an entry on disk."""
    missing = [item for item in (folder, *folder.parents) if not item.exists()]
    for item in reversed(missing):
        item.mkdir(mode=0o755, exist_ok=True)
        _sync_folder(item.parent)


def _sync_folder(folder: Path) -> None:
    """Sync a folder after a rename, where it can be: that must not keep a sequencer from being stopped."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EACCES):
            raise


class SequencerStore:
    """The files of one node. All calls may block."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._state = SequencerState()
        self._file = SequencerStateFile(config.sequencer_state_file) if config.sequencer_state_file else None
        self.keeps_active = config.sequencer_enabled and not config.conductor_enabled
        kept = config.admin_state_file if self.keeps_active else None
        self._admin_file = AdminStateFile(kept) if kept else None

    def load(self) -> EngineConfig:
        """Return the configuration with what is kept in place of the options."""
        config, self._state = self._config, SequencerState() if self._file is None else self._file.load()
        stored = self._admin_state()
        active = stored.active
        if active is None and self.keeps_active:
            active = self._state.active
        opt_in = self._state.sdm_opt_in if stored.sdm_opt_in is None else stored.sdm_opt_in
        return msgspec.structs.replace(
            config,
            sequencer_stopped=config.sequencer_stopped if active is None else not active,
            sequencer_recover=config.sequencer_recover if self._state.recover is None else self._state.recover,
            sdm_opt_in=bool(opt_in),
        )

    def store(self, **changes: bool) -> None:
        """Keep fields, those that `rpc.admin-state` has on disk when this returns. Raises StoreFailedError."""
        wanted = msgspec.structs.replace(self._state, **changes)
        if self._admin_file is None or "recover" in changes:
            self._replace(wanted)
            return
        self._admin_file.store(**changes)
        try:
            self._replace(wanted)
        except StoreFailedError as error:
            text = "the sequencer's state is in the file of rpc.admin-state alone"
            log.warn(text, code=Code.SEQUENCER_STATE.text, error=str(error))

    def _admin_state(self) -> AdminState:
        if self._admin_file is None:
            return AdminState()
        try:
            return self._admin_file.load()
        except StoreFailedError as error:
            text = "the file of rpc.admin-state cannot be read: the state kept beside it counts"
            log.error(text, code=Code.SEQUENCER_STATE.text, error=str(error))
            return AdminState()

    def _replace(self, state: SequencerState) -> None:
        if self._file is None:
            return
        try:
            self._file.store(state)
        except OSError as error:
            raise StoreFailedError(f"cannot write {self._config.sequencer_state_file}: {error.strerror}") from None
        self._state = state
