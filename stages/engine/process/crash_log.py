"""What a bug or a critical error leaves in the log: the last stimuli of the engine core."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.io.log.logger import Level, get_logger
from rollup_node.stages.protocol.errors import RestartError

LINES_A_RECORD = 50
PAUSE_SECONDS = 0.002
"""Between records: the log pipe holds a few of them and drops what finds no room, and the traceback must find some."""

log = get_logger("engine")


@contextmanager
def stimuli_logged(stimuli: StimulusLog) -> Iterator[None]:
    """Writes the stimuli to the log when an exception ends the block, unless it asks for a new start; it goes on."""
    try:
        yield
    except RestartError:
        raise
    except Exception:
        write_stimuli(stimuli)
        raise


def write_stimuli(stimuli: StimulusLog) -> None:
    """Writes all lines, oldest first, in records of LINES_A_RECORD lines."""
    lines = stimuli.lines()
    for first in range(0, len(lines), LINES_A_RECORD):
        part = lines[first : first + LINES_A_RECORD]
        log.write(
            Level.ERROR,
            "last stimuli of the engine core",
            {"from": first, "of": len(lines)},
            "\n".join(part),
        )
        time.sleep(PAUSE_SECONDS)
