"""Where the engine process keeps what admin calls set about the sequencer, and with what it begins.

| what                | over restarts of the node       | over restarts of the engine process       |
|---------------------|---------------------------------|-------------------------------------------|
| started, stopped    | `rpc.admin-state` [ADM1, ADM5]  | that file, or else `sequencer.state`      |
| SDM opt-in          | `rpc.admin-state` [ADM1]        | that file, or else `sequencer.state`      |
| recover mode        | not at all [ADM6]               | `sequencer.state` [ADM7]                  |

Under a conductor it is not kept whether the sequencer is started: a stored start would let two nodes sequence, for only
the conductor knows who leads by now [CND6]."""

from collections.abc import Callable

import msgspec

from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.admin_state_file import AdminState, AdminStateError, AdminStateFile
from rollup_node.stages.engine.process.sequencer_state_file import SequencerState, SequencerStateFile
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code

log = get_logger("engine")


class StoreFailedError(Exception):
    """A state could not be stored; the text is one line that says why."""


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
        """The configuration with what is kept in place of the options."""
        config, self._state = self._config, SequencerState() if self._file is None else self._file.load()
        stored = self._admin_state()
        active = stored.sequencer_started
        if active is None and self.keeps_active:
            active = self._state.active
        opt_in = self._state.sdm_opt_in if stored.sdm_post_exec_opt_in is None else stored.sdm_post_exec_opt_in
        return msgspec.structs.replace(
            config,
            sequencer_stopped=config.sequencer_stopped if active is None else not active,
            sequencer_recover=config.sequencer_recover if self._state.recover is None else self._state.recover,
            sdm_opt_in=bool(opt_in),
        )

    def store_active(self, active: bool) -> None:
        """Keeps whether the sequencer is started; with `rpc.admin-state` it is on disk when this returns. Raises
        StoreFailedError."""
        wanted = msgspec.structs.replace(self._state, active=active)
        self._store(wanted, lambda file: file.store(started=active))

    def store_sdm_opt_in(self, enabled: bool) -> None:
        """Keeps the SDM opt-in, as `store_active`. Raises StoreFailedError."""
        wanted = msgspec.structs.replace(self._state, sdm_opt_in=enabled)
        self._store(wanted, lambda file: file.store(sdm_opt_in=enabled))

    def _store(self, wanted: SequencerState, store: Callable[[AdminStateFile], None]) -> None:
        if self._admin_file is None:
            self._replace(wanted)
            return
        try:
            store(self._admin_file)
        except AdminStateError as error:
            raise StoreFailedError(str(error)) from None
        try:
            self._replace(wanted)
        except StoreFailedError as error:
            text = "the sequencer's state is in the file of rpc.admin-state alone"
            log.warn(text, code=Code.SEQUENCER_STATE.text, error=str(error))

    def store_recover(self, recover: bool) -> None:
        """Keeps whether recover mode is on. Raises StoreFailedError."""
        self._replace(msgspec.structs.replace(self._state, recover=recover))

    def _admin_state(self) -> AdminState:
        if self._admin_file is None:
            return AdminState()
        try:
            return self._admin_file.load()
        except AdminStateError as error:
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
