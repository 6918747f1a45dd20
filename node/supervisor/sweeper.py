"""The sweeper: a small process that waits for the supervisor's end and cleans up after it. It only ever does
something when the supervisor was killed; otherwise the supervisor cleans up and tells it to go."""

import os
import signal
from pathlib import Path

from setproctitle import setproctitle

from rollup_node.node.system.exit_codes import Exit, SetupError
from rollup_node.node.system.runtime_dir import remove, take_lock
from rollup_node.node.system.signals import STOP_SIGNALS

ROLE = "sweeper"
DONE = b"."
LOCK_PATIENCE = 2.0


def run_sweeper(pipe: int, directory: Path, created: bool) -> int:
    """The body of the sweeper; `pipe` is the read end of a pipe whose write end only the supervisor holds."""
    os.setsid()
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    setproctitle(f"rollup-node: {ROLE}")
    if os.read(pipe, 1) != DONE:
        clean_up(directory, created)
    return Exit.OK


def clean_up(directory: Path, created: bool) -> None:
    """Sweeps the directory of a dead supervisor, unless another node has taken it over by now."""
    try:
        lock = take_lock(directory, LOCK_PATIENCE)
    except SetupError:
        return
    remove(directory, created)
    os.close(lock)
