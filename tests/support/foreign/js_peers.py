"""Foreign peers written in JavaScript (tests/interop/js).

One program runs the peers of a test file, as loading their packages takes longer than most tests; each peer is
driven by lines of JSON on its own connection."""

import asyncio
import contextlib
import fcntl
import json
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.leftovers import Leftovers

FOLDER = Path(__file__).parents[2] / "interop" / "js"
_INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error")
_INSTALL_SECONDS = 50


def need_packages() -> None:
    """Install the packages once by npm, as the lock file pins them, or skip the test with the reason."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: no foreign peers in JavaScript")
    if int(_version("node").removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"node {_version('node')} is older than v20: no foreign peers in JavaScript")
    try:
        _install()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"the npm packages of tests/interop/js cannot be installed: {_short(error)}")


def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout.strip()


def _install() -> None:
    """Installs under a lock, unless the packages of this lock file are installed."""
    wanted = (FOLDER / "package-lock.json").read_bytes()
    stamp = FOLDER / "node_modules" / ".installed"
    with (FOLDER / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_bytes() == wanted:
            return
        subprocess.run(_INSTALL, cwd=FOLDER, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=True)
        stamp.write_bytes(wanted)


def _short(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    return " ".join(str(said).split())[-300:]


_MAX_LINE = 1 << 24
_END_SECONDS = 5


class JsError(Exception):
    """A command of the peer failed."""


class JsProgram:
    """A program that runs any number of peers of one kind. It outlives the event loops of the tests."""

    running: "JsProgram | None" = None
    """The program of the present test file."""

    def __init__(self, name: str, leftovers: Leftovers) -> None:
        self.socket = leftovers.folder / "peers"
        self._name, self._leftovers = name, leftovers
        self._process: subprocess.Popen[bytes] | None = None

    def ensure_running(self) -> None:
        """Start the program unless it runs. Connections are accepted at once, and served when it is ready."""
        if self._process is not None and self._process.poll() is None:
            return
        self.end()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.socket))
            listener.listen()
            self._process = subprocess.Popen(
                ("node", str(FOLDER / "lines.mjs"), self._name, str(listener.fileno())),
                stdin=subprocess.PIPE,
                cwd=self._leftovers.folder,
                env=self._leftovers.environment(),
                pass_fds=(listener.fileno(),),
            )

    def end(self) -> int:
        """End the program with its input. Returns its exit code: 0 unless a peer has left a socket open."""
        process, self._process = self._process, None
        self.socket.unlink(missing_ok=True)
        if process is None:
            return 0
        assert process.stdin is not None
        process.stdin.close()
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def kill(self) -> None:
        """Kills the program with all its peers; the next peer starts another."""
        if self._process is not None:
            self._process.kill()
            self.end()


@contextlib.contextmanager
def js_program(name: str, leftovers: Leftovers) -> Iterator[None]:
    """Run the peers of a test file in one program, from the first `js_peer` on. Skips without its packages."""
    need_packages()
    JsProgram.running = program = JsProgram(name, leftovers)
    try:
        yield
    finally:
        JsProgram.running = None
        code = program.end()
    assert code == 0, f"{name} failed, or had to be killed as a peer has left a socket open: exit code {code}"


class JsPeer:
    """A running peer: its first event `ready`, the events since, and commands."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.events: list[dict[str, Any]] = []
        self._reader, self._writer = reader, writer
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._heard = asyncio.Event()
        self._ended = False
        self._count = 0

    @property
    def ready(self) -> dict[str, Any]:
        """The data of its first event, `ready`."""
        return self.events[0]

    async def call(self, command: str, *, seconds: float = 20.0, **arguments: Any) -> Any:
        """Return the result of a command. Raises JsError if it failed, ConnectionError if the peer has ended."""
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        self.send({"id": self._count, "command": command, **arguments})
        async with asyncio.timeout(seconds):
            line = await answer
        if "error" in line:
            raise JsError(line["error"])
        return line["result"]

    async def event(self, name: str, matches: Callable[[dict[str, Any]], bool] = bool) -> Any:
        """Wait for the first event of that name that matches. Raises ConnectionError if the peer has ended."""
        async with asyncio.timeout(20.0):
            while True:
                for event in self.events:
                    if event["event"] == name and matches(event):
                        return event
                if self._ended:
                    raise ConnectionError(f"the peer ended without the event {name}")
                self._heard.clear()
                await self._heard.wait()

    def send(self, line: Mapping[str, Any]) -> None:
        """Send one line: options, or a command."""
        if self._ended:
            raise ConnectionError("the peer has ended")
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def read_output(self) -> None:
        """Read its output to the end."""
        try:
            async for text in self._reader:
                self._receive(json.loads(text))
        except ConnectionError:
            pass  # the program was killed
        finally:
            self._ended = True
            self._heard.set()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the peer ended without an answer"))

    def _receive(self, line: dict[str, Any]) -> None:
        if "event" in line:
            self.events.append(line)
            self._heard.set()
        else:
            answer = self._answers.pop(line["id"])
            if not answer.done():
                answer.set_result(line)


@contextlib.asynccontextmanager
async def js_peer(**options: Any) -> AsyncIterator[JsPeer]:
    """Start a peer in the program of the test file, and stops it: all its sockets are closed afterwards."""
    program = JsProgram.running
    assert program is not None, "the test file has no fixture with js_program"
    await asyncio.to_thread(program.ensure_running)
    reader, writer = await asyncio.open_unix_connection(program.socket, limit=_MAX_LINE)
    peer = JsPeer(reader, writer)
    peer.send(options)
    reading = asyncio.get_running_loop().create_task(peer.read_output())
    try:
        await peer.event("ready")
        yield peer
    finally:
        await _stop(reading, writer, program)


async def _stop(reading: asyncio.Task[None], writer: asyncio.StreamWriter, program: JsProgram) -> None:
    """End the input of a peer and waits until it has stopped. Otherwise kills the program and raises TimeoutError."""
    with contextlib.suppress(OSError):
        writer.write_eof()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.shield(reading)
    except TimeoutError:
        program.kill()
        await reading
        raise
    finally:
        writer.close()


def by(**wanted: Any) -> Callable[[Mapping[str, Any]], bool]:
    """Return a predicate: whether an event has these values."""
    return lambda event: all(event.get(name) == value for name, value in wanted.items())
