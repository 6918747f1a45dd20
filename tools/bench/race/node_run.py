"""One start of a node over a course, beside the process that serves it: messages, readiness, memory, and the end."""

import contextlib
import http.client
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rollup_node.tools.bench.race.course_files import CourseFiles, CourseSize
from rollup_node.tools.bench.race.executed import FreshEngine
from rollup_node.tools.bench.race.programs import CpuUsage, Place, RaceProgram, cpu_usage, memory_of, process_tree
from rollup_node.tools.bench.race.server import LastSafe, Listening, Message, Mismatch, NewHead, Served
from rollup_node.tools.devnet.ports import reserved_numbers

T = TypeVar("T")

POLL_READY, SAMPLE_MEMORY, FIND_PROCESSES = 0.01, 0.1, 1.0
CALL_SECONDS, STATUS_SECONDS, STOP_SECONDS = 1.0, 20.0, 30.0
LOG_TAIL = 2000


class RaceError(Exception):
    """A run that gives no figures; the text says why, with the end of the node's log."""


class ServerProcess:
    """The server process of a run for the life of a `with` block, with further arguments, and its messages.

    `served` is there at the end, with --complete."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "rollup_node.tools.bench.race.server", str(folder), *arguments]
        self._received = b""
        self.served: Served | None = None

    def __enter__(self) -> "ServerProcess":
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
        rest = self._process.communicate(timeout=STOP_SECONDS)[0]
        last = (self._received + rest).splitlines()[-1:]
        result: Message | None = msgspec.json.decode(last[0], type=Message) if last else None
        self.served = result if isinstance(result, Served) else None

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def wait(self, seconds: float) -> Message | None:
        """Return the next message, None when there is none for so long. Raises RaceError when the process has ended."""
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


class NodeRun:
    """A running node; `started` and `ready` in monotonic seconds, `memory` the most that was seen, in MiB.

    `engine` is the id of the process of a real engine."""

    def __init__(
        self,
        course: CourseFiles,
        program: RaceProgram,
        place: Place,
        servers: ServerProcess,
        deadline: float,
        engine: int | None,
    ) -> None:
        self._engine = engine
        self._course, self._program, self._place = course, program, place
        self._servers, self._deadline = servers, deadline
        self._log = place.folder / "log"
        self._kept: list[Message] = []
        self.ready: float | None = None
        self.memory = self._found = 0.0
        self._processes: list[int] = []
        with self._log.open("wb") as log:
            self.started = time.monotonic()
            command = program.command(course, place)
            self._node = subprocess.Popen(
                command, cwd=place.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def cpu(self) -> CpuUsage:
        """Return the CPU of its processes so far."""
        return cpu_usage(self._node.pid)

    def engine_cpu(self) -> float:
        """Return the CPU seconds of a real engine whose process is known, or 0."""
        return 0.0 if self._engine is None else cpu_usage(self._engine).total

    def next(self, kind: type[T]) -> T:
        """Return the next message of a kind, while readiness is polled until it comes and then memory sampled.

        Others are kept for their time. Raises RaceError when the node ends, is too late, or derives something that
        is not the course's."""
        for kept in self._kept:
            if isinstance(kept, kind):
                self._kept.remove(kept)
                return kept
        while True:
            message = self._servers.wait(POLL_READY if self.ready is None else SAMPLE_MEMORY)
            self._poll_ready()
            if isinstance(message, kind):
                return message
            if isinstance(message, Mismatch):
                raise self._error(f"{self._program.name} derives something else: {message.text}")
            if message is not None:
                self._kept.append(message)
            if self._node.poll() is not None:
                raise self._error(f"{self._program.name} has ended with code {self._node.returncode}")
            if time.monotonic() > self._deadline:
                raise self._error(f"{self._program.name} has not reached the end of the course in time")
            if self.ready is not None:
                self.sample_memory()

    def check_safe_head(self) -> None:
        """Raise RaceError unless the node is ready and reports the last block of each chain that it follows as safe."""
        for chain in self._program.followed(self._course):
            path = f"/{chain.config.l2_chain_id}/" if self._program.all_chains else "/"
            self._check_safe_head(path, chain.facts.last_safe)

    def _check_safe_head(self, path: str, wanted: str) -> None:
        until, result = time.monotonic() + STATUS_SECONDS, None
        while time.monotonic() < until:
            self._poll_ready()
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                result = self._call(path, "optimism_syncStatus")["safe_l2"]["hash"]
                if self.ready is not None and result == wanted:
                    return
            time.sleep(0.05)
        raise self._error(f"{self._program.name} reports the safe head {result}, not {wanted}, or is not ready")

    def sample_memory(self) -> None:
        """Read the memory of its processes, which are looked for once a second: that takes longer than to read it."""
        now = time.monotonic()
        if now >= self._found + FIND_PROCESSES:
            self._found, self._processes = now, process_tree(self._node.pid)
        self.memory = max(self.memory, memory_of(self._processes))

    def stop(self) -> None:
        """End the node."""
        self._node.send_signal(signal.SIGTERM)
        try:
            self._node.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._node.kill()
            self._node.wait()

    def _poll_ready(self) -> None:
        """Note when /readyz answers 200; a node without it is ready once its server answers."""
        if self.ready is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._request("GET", "/readyz")[0] in (200, 404, 405):
                    self.ready = time.monotonic()

    def _call(self, path: str, method: str) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
        return json.loads(self._request("POST", path, body)[1])["result"]

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


@contextlib.contextmanager
def running(
    course: CourseFiles,
    program: RaceProgram,
    arguments: Sequence[str],
    seconds: float,
    engine: FreshEngine | None = None,
) -> Iterator[NodeRun]:
    """Yield a node over a course for at most that many seconds; the arguments are for the server process.

    With a real engine, which is fresh, the server process relays to it. Raises EngineError."""
    with contextlib.ExitStack() as stack:
        folder, path = stack.enter_context(tempfile.TemporaryDirectory(prefix="race-")), course.rollup.parent
        pid = stack.enter_context(engine.running(path)) if engine else None
        arguments = [*arguments, f"--engine={engine.url}"] if engine else arguments
        arguments = [*arguments, f"--chains={len(program.followed(course))}"]
        servers = stack.enter_context(ServerProcess(path, arguments))
        (port,) = stack.enter_context(reserved_numbers(0, 1))
        place = Place(servers.urls, port, Path(folder))
        run = NodeRun(course, program, place, servers, time.monotonic() + seconds, pid)
        try:
            yield run
        finally:
            run.stop()


TIP = CourseSize(l1_blocks=40, deposits=23, l2_blocks=228, blocks_per_channel=30, blocks_per_span=30)
"""A channel for every five L1 blocks."""

L1_BLOCK_SECONDS = 12.0
SETTLING = 2
"""New L1 blocks before the measured ones."""


class TipRun(msgspec.Struct):
    """Requests and result bytes for each new L1 block, and the CPU of all processes in percent of a core.

    Over so many L1 blocks."""

    l1_requests_per_block: float
    l1_bytes_per_block: float
    beacon_requests_per_block: float
    cpu_percent: float
    l1_blocks: int
    seconds: float


def run_tip(course: CourseFiles, program: RaceProgram, interval: float, measured: int) -> TipRun:
    """Return the figures over the last `measured` L1 blocks of a course, of which one comes every `interval` seconds.

    Raises RaceError as `run_once`, and where the course is too short."""
    fresh = measured + SETTLING
    if fresh >= course.facts.size.l1_blocks:
        raise RaceError(f"{course.facts.size.l1_blocks} L1 blocks do not hold {fresh} new ones")
    arguments = [f"--fresh={fresh}", f"--interval={interval}"]
    with running(course, program, arguments, (fresh + 3) * interval + 60) as node:
        for _ in range(SETTLING):
            first = node.next(NewHead)
        before = node.cpu().total
        for _ in range(measured):
            last = node.next(NewHead)
        used = node.cpu().total - before
        node.next(LastSafe)
        node.check_safe_head()
    seconds = last.time - first.time
    return TipRun(
        l1_requests_per_block=(last.l1_requests - first.l1_requests) / measured,
        l1_bytes_per_block=(last.l1_bytes - first.l1_bytes) / measured,
        beacon_requests_per_block=(last.beacon_requests - first.beacon_requests) / measured,
        cpu_percent=100 * used / seconds,
        l1_blocks=measured,
        seconds=seconds,
    )
