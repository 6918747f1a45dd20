"""What admin calls set about the sequencer, kept for the life of the node: a restart of the engine process must not
start a sequencer that was stopped, nor stop one that was started, nor end recover mode [ADM7]."""

from pathlib import Path

import msgspec

from rollup_node.stages.io.files.private_files import read_private_file, replace_private_file
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import DECODE_ERRORS

MAX_BYTES = 256

log = get_logger("engine")


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
        """What is kept; nothing for a missing file, and for one that cannot be read."""
        try:
            return msgspec.json.decode(read_private_file(self._path, MAX_BYTES), type=SequencerState)
        except FileNotFoundError:
            return SequencerState()
        except (OSError, *DECODE_ERRORS) as error:
            text = "the sequencer's state cannot be read: the options count"
            log.error(text, code=Code.SEQUENCER_STATE.text, file=self._path, error=str(error))
            return SequencerState()

    def store(self, state: SequencerState) -> None:
        """Keeps a state. Raises OSError; what was kept before stays then."""
        replace_private_file(self._path, msgspec.json.encode(state))
