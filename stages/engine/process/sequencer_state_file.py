"""Whether an operator last started or stopped the sequencer, kept for the life of the node: a restart of the engine
process must not start a sequencer that was stopped, nor stop one that was started."""

from pathlib import Path

from rollup_node.stages.io.log import get_logger

ACTIVE, STOPPED = "active", "stopped"

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
            word = self._path.read_text().strip()
        except OSError:
            return default
        return word == STOPPED if word in (ACTIVE, STOPPED) else default

    def store(self, active: bool) -> None:
        """Stores the state, by rename. A failure is logged and has no other effect."""
        if self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(ACTIVE if active else STOPPED)
            fresh.replace(self._path)
        except OSError as error:
            log.error("failed to store the sequencer state", file=self._path, error=error)
