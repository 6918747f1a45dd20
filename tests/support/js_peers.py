"""Foreign peers written in JavaScript, as subprocesses driven by lines of JSON (tests/interop/js). Their packages are
installed once beside them by npm, as the lock file pins them."""

import asyncio
import contextlib
import fcntl
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "interop" / "js"
_INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error")
_INSTALL_SECONDS = 50


def need_packages() -> None:
    """Makes sure that the packages are installed, or skips the test with the reason."""
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


class JsError(Exception):
    """A command of the peer failed."""


class JsPeer:
    """A running program of tests/interop/js: its first event `ready`, the events since, and commands."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.events: list[dict[str, Any]] = []
        self._process = process
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._heard = asyncio.Event()
        self._count = 0

    @property
    def ready(self) -> dict[str, Any]:
        """The data of its first event, `ready`."""
        return self.events[0]

    async def call(self, command: str, *, seconds: float = 20.0, **arguments: Any) -> Any:
        """The result of a command. Raises JsError if it failed."""
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": self._count, "command": command, **arguments}).encode() + b"\n")
        async with asyncio.timeout(seconds):
            line = await answer
        if "error" in line:
            raise JsError(line["error"])
        return line["result"]

    async def event(self, name: str, matches: Callable[[dict[str, Any]], bool] = bool, seconds: float = 20.0) -> Any:
        """Waits for the first event of that name that matches."""
        async with asyncio.timeout(seconds):
            while True:
                for event in self.events:
                    if event["event"] == name and matches(event):
                        return event
                self._heard.clear()
                await self._heard.wait()

    async def read_output(self) -> None:
        """Reads its output to the end."""
        assert self._process.stdout is not None
        async for text in self._process.stdout:
            line = json.loads(text)
            if "event" in line:
                self.events.append(line)
                self._heard.set()
            else:
                answer = self._answers.pop(line["id"])
                if not answer.done():
                    answer.set_result(line)


@contextlib.asynccontextmanager
async def js_peer(program: str, **options: Any) -> AsyncIterator[JsPeer]:
    """Starts a program of tests/interop/js, and ends it with its input."""
    process = await asyncio.create_subprocess_exec(
        *("node", program, json.dumps(options)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=FOLDER,
        limit=1 << 24,
    )
    peer = JsPeer(process)
    listening = asyncio.get_running_loop().create_task(peer.read_output())
    try:
        await peer.event("ready")
        yield peer
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        await listening


def by(**wanted: Any) -> Callable[[Mapping[str, Any]], bool]:
    """A predicate: whether an event has these values."""
    return lambda event: all(event.get(name) == value for name, value in wanted.items())
