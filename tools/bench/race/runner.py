"""Runs a node once over a course: starts the servers and the node, measures until the course's last block is safe."""

import contextlib
import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.processes import CpuUsage, cpu_usage, memory_of_tree
from rollup_node.tools.bench.race.programs import Place, RaceProgram
from rollup_node.tools.bench.race.server import FirstAttributes, LastSafe, Listening, Message, Mismatch

POLL_READY, SAMPLE_MEMORY = 0.01, 1.0
CALL_SECONDS, STATUS_SECONDS, STOP_SECONDS = 1.0, 20.0, 30.0
LOG_TAIL = 2000
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


class RaceError(Exception):
    """A run that gives no figures; the text says why, with the end of the node's log."""


class RaceRun(msgspec.Struct):
    """One catch-up. Times in seconds since the node's start, CPU in milliseconds per L2 block from the first attributes
    on; `cpu_s` is the node's CPU from its start to the end. `pss_mb` is the most that was seen in all processes."""

    latency_ms: float
    blocks_per_second: float
    cpu_ms_per_block: float
    cpu_ms_per_block_by_process: dict[str, float]
    cpu_s: float
    engine_calls_per_block: float
    pss_mb: float
    first_l1_request_s: float
    ready_s: float
    first_attributes_s: float
    server_cpu_ms_per_block: float
    load: float
    counted: LastSafe


def run_once(course: CourseFiles, program: RaceProgram, latency_ms: float, busy: int, seconds: float) -> RaceRun:
    """One run of at most that many seconds. Raises RaceError where the node ends, takes longer, derives anything that
    is not the course's, or reports another safe head."""
    with (
        tempfile.TemporaryDirectory(prefix="race-") as folder,
        _Servers(Path(course.rollup.parent), latency_ms) as servers,
        _busy_loops(busy),
    ):
        place = Place(servers.urls, _free_port(), Path(folder))
        run = _Run(course, program, place, servers, time.monotonic() + seconds)
        return run.measure(latency_ms)


class _Servers:
    """The server process of a run, and its messages."""

    def __init__(self, folder: Path, latency_ms: float) -> None:
        module = "rollup_node.tools.bench.race.server"
        self._command = [sys.executable, "-m", module, str(folder), f"--latency={latency_ms}"]
        self._received = b""

    def __enter__(self) -> "_Servers":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        message = self.wait(60.0)
        if not isinstance(message, Listening):
            raise RaceError("the servers of the race do not start")
        self.urls = message
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        self._process.communicate(timeout=STOP_SECONDS)

    def wait(self, seconds: float) -> Message | None:
        """The next message, None when there is none for so long. Raises RaceError when the process has ended."""
        # Read without a buffered reader, which would hold lines that the selector no longer sees.
        while b"\n" not in self._received:
            if not self._selector.select(max(0.0, seconds)):
                return None
            assert self._process.stdout is not None
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                raise RaceError("the servers of the race have ended")
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        message: Message = msgspec.json.decode(line, type=Message)
        return message


class _Run:
    """One start of a node; `deadline` in monotonic seconds."""

    def __init__(
        self, course: CourseFiles, program: RaceProgram, place: Place, servers: _Servers, deadline: float
    ) -> None:
        self._course, self._program, self._place = course, program, place
        self._servers, self._deadline = servers, deadline
        self._log = place.folder / "log"
        self._ready: float | None = None
        self._memory = 0.0

    def measure(self, latency_ms: float) -> RaceRun:
        """Starts the node, follows the messages of the servers, and stops the node."""
        load = os.getloadavg()[0]
        with self._log.open("wb") as log:
            self._started = time.monotonic()
            command = self._program.command(self._course, self._place)
            self._node = subprocess.Popen(
                command, cwd=self._place.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            first = self._next(FirstAttributes)
            before = cpu_usage(self._node.pid)
            last = self._next(LastSafe)
            after = cpu_usage(self._node.pid)
            self._sample_memory()
            self._check_safe_head()
        finally:
            self._stop()
        return self._figures(latency_ms, load, first, last, before, after)

    def _next(self, kind: type[Any]) -> Any:
        """The next message, while readiness is polled until it comes and then memory sampled."""
        while True:
            message = self._servers.wait(POLL_READY if self._ready is None else SAMPLE_MEMORY)
            if self._ready is None and self._answers_ready():
                self._ready = time.monotonic()
            if isinstance(message, kind):
                return message
            if isinstance(message, Mismatch):
                raise self._error(f"{self._program.name} derives something else: {message.text}")
            if self._node.poll() is not None:
                raise self._error(f"{self._program.name} has ended with code {self._node.returncode}")
            if time.monotonic() > self._deadline:
                raise self._error(f"{self._program.name} has not reached the end of the course in time")
            if self._ready is not None:
                self._sample_memory()

    def _check_safe_head(self) -> None:
        """Raises RaceError unless the node reports the course's last block as safe."""
        until, found = time.monotonic() + STATUS_SECONDS, None
        while time.monotonic() < until:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                found = self._call("optimism_syncStatus")["safe_l2"]["hash"]
                if found == self._course.facts.last_safe:
                    return
            time.sleep(0.05)
        raise self._error(f"{self._program.name} reports the safe head {found}, not {self._course.facts.last_safe}")

    def _figures(
        self, latency_ms: float, load: float, first: FirstAttributes, last: LastSafe, before: CpuUsage, after: CpuUsage
    ) -> RaceRun:
        blocks = len(self._course.facts.l2_hashes) - 1
        spent = {
            name: 1000 * (seconds - before.by_process.get(name, 0.0)) / blocks
            for name, seconds in after.by_process.items()
        }
        assert self._ready is not None
        return RaceRun(
            latency_ms=latency_ms,
            blocks_per_second=blocks / (last.time - first.time),
            cpu_ms_per_block=1000 * (after.total - before.total) / blocks,
            cpu_ms_per_block_by_process=dict(sorted(spent.items(), key=lambda item: -item[1])),
            cpu_s=after.total,
            engine_calls_per_block=_engine_calls(last.engine_calls) / blocks,
            pss_mb=self._memory,
            first_l1_request_s=first.first_l1_request - self._started,
            ready_s=self._ready - self._started,
            first_attributes_s=first.time - self._started,
            server_cpu_ms_per_block=last.cpu_ms / blocks,
            load=load,
            counted=last,
        )

    def _sample_memory(self) -> None:
        self._memory = max(self._memory, memory_of_tree(self._node.pid))

    def _answers_ready(self) -> bool:
        """Whether /readyz answers 200; a node without it is ready once its server answers."""
        try:
            return self._request("GET", "/readyz")[0] in (200, 404, 405)
        except (OSError, http.client.HTTPException):
            return False

    def _call(self, method: str) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
        return json.loads(self._request("POST", "/", body)[1])["result"]

    def _request(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._place.rpc_port, timeout=CALL_SECONDS)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _error(self, text: str) -> RaceError:
        tail = self._log.read_bytes()[-LOG_TAIL:].decode(errors="replace")
        return RaceError(f"{text}; the end of its log:\n{tail}")

    def _stop(self) -> None:
        self._node.send_signal(signal.SIGTERM)
        try:
            self._node.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._node.kill()
            self._node.wait()


def _engine_calls(calls: dict[str, int]) -> int:
    """All calls but those that ask for the engine's chain and versions, which are made at the start."""
    return sum(count for name, count in calls.items() if name not in ("eth_chainId", "engine_exchangeCapabilities"))


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    """Other work on the cores; it ends with this process at the latest."""
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
