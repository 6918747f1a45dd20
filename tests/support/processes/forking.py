"""A program with a fork server, for its tests: `python -m tests.support.processes.forking FOLDER CASE`. It prints
`ok` at the end of a case. The programs that the server starts are `main` of this module."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rollup_node.tools.devnet import fork_server as servers
from rollup_node.tools.devnet.fork_server import ForkedProgram, ForkServer, fork_server

NAME = "forked"
SECONDS = 20.0


def main(words: Sequence[str]) -> int:
    """The forked program: does what the words say, one after another."""
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


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Waits until the condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class Case:
    """One case with a server."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.server, self.log = server, folder / "log"

    def start(self, *words: str) -> ForkedProgram:
        """Starts a program."""
        return self.server.start("a program", NAME, words, self.log)

    def running(self) -> ForkedProgram:
        """A program that runs."""
        program = self.start("run")
        wait_for(lambda: self.log.exists() and "runs" in self.log.read_text(), "it runs")
        return program

    def ends(self) -> None:
        """Exit codes, output, and what a program has from its start."""
        assert [self.start(word).wait(SECONDS) for word in ("0", "7", "exit", "bug")] == [0, 7, 5, 1]
        assert "ValueError: a bug" in self.log.read_text()
        self.log.write_text("")
        assert self.start("about", "error").wait(SECONDS) == 0
        said, complaint = self.log.read_text().splitlines()
        assert complaint == "said on stderr"
        assert said == f"{self.server.pid} True ['0', '1', '2'] rollup-node devnet: a program"

    def signals(self) -> None:
        """The end of a program by signals."""
        program = self.running()
        assert program.poll() is None and program.returncode is None
        try:
            program.wait(0.01)
        except subprocess.TimeoutExpired:
            pass
        else:
            raise AssertionError("it should run")
        program.terminate()
        assert program.wait(SECONDS) == program.poll() == program.returncode == -signal.SIGTERM
        program.kill()
        self.log.unlink()
        other = self.running()
        other.kill()
        assert other.wait() == -signal.SIGKILL

    def refuses(self) -> None:
        """A log that cannot be opened; a second server beside a thread."""
        self.log = self.log / "no folder"
        try:
            self.start("0")
        except OSError as error:
            assert error.filename == str(self.log), error
        else:
            raise AssertionError("there is no such folder")
        ended = threading.Event()
        thread = threading.Thread(target=ended.wait)
        thread.start()
        try:
            with fork_server() as other:
                assert other is None
        finally:
            ended.set()
            thread.join()

    def full(self) -> None:
        """The disk of a log is full: nothing but that program runs in its process."""
        log, self.log = self.log, Path("/dev/full")
        assert self.start("about").wait(SECONDS) == 1
        self.log = log
        assert self.start("7").wait(SECONDS) == 7

    def killed(self) -> None:
        """The server is killed, and its programs end with it."""
        program = self.running()
        os.kill(self.server.pid, signal.SIGKILL)
        assert program.wait(SECONDS) == -signal.SIGKILL
        try:
            self.start("0")
        except OSError:
            return
        raise AssertionError("the server has ended")

    def orphaned(self) -> None:
        """This program is killed; its test sees that the others end."""
        program = self.running()
        print(program.pid, self.server.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, name: str) -> None:
    """Runs a case of that name."""
    servers.PROGRAMS = {NAME: __spec__.name if __spec__ else __name__}
    servers.COMMON = (NAME,)
    with fork_server() as server:
        assert server is not None
        getattr(Case(server, folder), name)()
    assert has_ended(server.pid)
    print("ok")


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
