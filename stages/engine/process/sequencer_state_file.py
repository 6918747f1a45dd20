"""What an operator last told the sequencer, kept for the life of the node: a death of the engine process must not start
a sequencer that was stopped, nor stop one that was started."""

from pathlib import Path

from rollup_node.stages.io.log import get_logger

ACTIVE, STOPPED = "active", "stopped"

log = get_logger("engine")


class SequencerMemory:
    """A file of one word; without a path nothing is remembered."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None

    def stopped(self, otherwise: bool) -> bool:
        """Whether the sequencer is to be stopped; `otherwise` when nobody has said so since the node started."""
        if self._path is None:
            return otherwise
        try:
            word = self._path.read_text().strip()
        except OSError:
            return otherwise
        return word == STOPPED if word in (ACTIVE, STOPPED) else otherwise

    def note(self, active: bool) -> None:
        """Remembers, by rename; a full disk is told and does no more harm."""
        if self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(ACTIVE if active else STOPPED)
            fresh.replace(self._path)
        except OSError as error:
            log.error("cannot remember whether the sequencer is stopped", file=self._path, error=error)
