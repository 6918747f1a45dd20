"""The program of the sweeper, run by a bare interpreter, which needs 3 MB while it waits.

It imports what cleans up only after the death of the supervisor.

    python -I -S sweeper_program.py PIPE DIRECTORY CREATED TITLES [PATH ...]

PIPE is the read end of a pipe whose write end only the supervisor has: its end without DISMISSED is the supervisor's
death. DIRECTORY is the runtime directory, CREATED 1 if the node created it, TITLES the folder of setproctitle's
extension module, and each PATH an entry of sys.path."""

import os
import sys

DISMISSED = b"."
NAME = "sweeper"


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    pipe, directory, created, titles, *path = arguments
    # Without the package around it, which imports logging.
    sys.path.append(titles)
    from _setproctitle import setproctitle  # type: ignore[import-not-found]

    setproctitle(f"rollup-node: {NAME}")
    if os.read(int(pipe), 1) != DISMISSED:
        sys.path[:] = path
        from rollup_node.node.supervisor.sweeper import clean_up

        clean_up(directory, created == "1")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
