"""Whether an operator last started or stopped the sequencer, kept for the life of the node: a restart of the engine
process must not start a sequencer that was stopped, nor stop one that was started."""

from pathlib import Path

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.private_files import read_private_file, replace_private_file

ACTIVE, STOPPED = "active", "stopped"
MAX_BYTES = 64

log = get_logger("engine")


class SequencerStateFile:
    """A file of one word; without a path nothing is stored."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None

    def is_stopped(self, default: bool) -> bool:
        """Whether the sequencer begins stopped; `default` when no state is stored, or the file cannot be read."""
        if self._path is None:
            return default
        try:
            word = read_private_file(self._path, MAX_BYTES).decode("ascii", "replace").strip()
        except OSError:
            return default
        return word == STOPPED if word in (ACTIVE, STOPPED) else default

    def store(self, active: bool) -> None:
        """Stores the state, by rename. A failure is logged and has no other effect."""
        if self._path is None:
            return
        try:
            replace_private_file(self._path, (ACTIVE if active else STOPPED).encode())
        except OSError as error:
            log.error("failed to store the sequencer state", file=self._path, error=error)
