"""A program that a fork server starts. Run by `python -m` with a folder, it has such a server, and is killed."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rollup_node.tools.devnet import fork_server as servers
from rollup_node.tools.devnet.fork_server import fork_server

NAME = "forked"
SECONDS = 20.0


def main(words: Sequence[str]) -> int:
    """Return the forked program: does what the words say, one after another."""
    for word in words:
        match word:
            case "about":
                descriptors = sorted(os.listdir("/proc/self/fd"))[:-1]
                title = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode()
                print(os.getppid(), os.getsid(0) == os.getpid(), descriptors, title)
            case "error":
                print("said on stderr", file=sys.stderr)
            case "bug":
                raise ValueError("a bug")
            case "exit":
                sys.exit(5)
            case "run":
                print("runs", flush=True)
                time.sleep(3 * SECONDS)
            case number:
                return int(number)
    return 0


def be_killed(folder: Path) -> None:
    """Print the process ids of a running program and of its server, and ends without a chance to end them."""
    servers.PROGRAMS = {NAME: "tests.support.processes.forking"}
    servers.COMMON = (NAME,)
    with fork_server() as server:
        assert server is not None
        program = server.start("a program", NAME, ("run",), folder / "log")
        while "runs" not in (folder / "log").read_text():
            time.sleep(0.01)
        print(program.pid, server.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    be_killed(Path(sys.argv[1]))
