"""A stage in a process of its own that tests attack, one or one after another: what it sends, and what it takes of
memory and log."""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import orjson
from aiohttp import web

from tests.support.processes.process_memory import peak_memory, reset_peak_memory
from tests.support.servers.http_listener import Handler, app_for_every_path, listening

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
WAIT_SECONDS = 50.0
MAX_MEGABYTES = 300
MAX_LOG_BYTES_AN_HOUR = 1_000_000


class AttackedStage:
    """`messages` are what `stage_program` printed, in order.

    They, `log` and `peak_megabytes` count from the last `within_bounds`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self._log, self._log_begin = process, log, 0
        self.messages: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not exited."""
        return self._process.returncode is None

    @property
    def peak_megabytes(self) -> float:
        """The highest resident memory of the process so far."""
        return peak_memory(self.pid) / (1 << 20)

    @contextmanager
    def within_bounds(self, megabytes: int = MAX_MEGABYTES) -> Iterator[None]:
        """Assert at the end that the process lives, without a traceback, and kept to its memory and log meanwhile."""
        began, self._log_begin = time.monotonic(), self._log.stat().st_size
        reset_peak_memory(self.pid)
        # A status is sent when it changes: the last one still holds.
        statuses = {key: message for message in self.messages for key in message.keys() & {"head", "problems"}}
        self.messages = list(statuses.values())
        try:
            yield
        finally:
            print(f"peak {self.peak_megabytes:.0f} MB, log {len(self.log)} bytes")
        assert self.is_alive and "Traceback" not in self.log
        assert self.peak_megabytes < megabytes
        hours = max(time.monotonic() - began, 60) / 3600
        assert len(self.log) < MAX_LOG_BYTES_AN_HOUR * hours, self.log[:3000]

    @property
    def log(self) -> str:
        """What the process has logged."""
        return self._log.read_bytes()[self._log_begin :].decode()

    def last(self, key: str) -> Any:
        """Return the value in the last message that has this key; None without one."""
        return next((message[key] for message in reversed(self.messages) if key in message), None)

    def request(self, *requests: Sequence[Any]) -> None:
        """Has these requests sent again and again, in place of those before."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(requests) + b"\n")

    async def until(self, condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
        """Return the first true value of a condition. Fails if the process exits before."""
        deadline = time.monotonic() + seconds
        while not (result := condition()):
            assert self.is_alive, f"the process exited with code {self._process.returncode}: {self.log[-1500:]}"
            assert time.monotonic() < deadline, f"timeout after {seconds:g} s: {what}: {self.log[-1500:]}"
            await asyncio.sleep(0.02)
        return result

    async def read_messages(self) -> None:
        """Read messages until the process ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.messages.append(orjson.loads(line))

    async def stop(self) -> int:
        """End the process by SIGTERM; its exit code."""
        if self.is_alive:
            self._process.terminate()
        try:
            async with asyncio.timeout(10):
                return await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            raise


@asynccontextmanager
async def attacked_stage(
    role: str, config: msgspec.Struct, constants: Mapping[str, float] | None = None
) -> AsyncIterator[AttackedStage]:
    """Start the process of a role and ends it.

    `constants` are numbers of its modules, by dotted name, with other values than theirs."""
    with tempfile.TemporaryDirectory(prefix="rn-") as folder:
        config_file, log = Path(folder, "config"), Path(folder, "log")
        config_file.write_bytes(msgspec.msgpack.encode(config))
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.support.processes.stage_program",
                role,
                str(config_file),
                orjson.dumps(constants or {}).decode(),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=1 << 26,
            )
        stage = AttackedStage(process, log)
        reading = asyncio.create_task(stage.read_messages())
        try:
            yield stage
        finally:
            await stage.stop()
            await reading


SCENARIO_SECONDS = 58.0
R = TypeVar("R")


class Attacked(Generic[R]):
    """What the tests of a file attack in one scenario after another; whatever one ends or breaks is started again."""

    def __init__(self) -> None:
        self._runner, self.stack = asyncio.Runner(), AsyncExitStack()
        self._running: R | None = None

    async def start(self) -> R:
        """Start it on the stack."""
        raise NotImplementedError

    async def stop(self, running: R) -> None:
        """Stop it in order, after the last scenario."""
        raise NotImplementedError

    def run(self, scenario: Callable[[R], Awaitable[None]]) -> None:
        """Run a scenario for a bounded time."""
        self._runner.run(self._run(scenario))

    async def _run(self, scenario: Callable[[R], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(SCENARIO_SECONDS):
                if self._running is None:
                    self._running = await self.start()
                await scenario(self._running)
        except BaseException:
            self._running = None
            await self.stack.aclose()
            raise

    def close(self) -> None:
        """End it in order."""
        try:
            if self._running is not None:
                self._runner.run(self.stop(self._running))
        finally:
            self._runner.run(self.stack.aclose())
            self._runner.close()


class SharedStage(Attacked[AttackedStage]):
    """One stage and its endpoint."""

    def __init__(
        self,
        role: str,
        config: Callable[[str], msgspec.Struct],
        constants: Mapping[str, float] | None = None,
        megabytes: int = MAX_MEGABYTES,
    ) -> None:
        super().__init__()
        self._megabytes = megabytes
        self._role, self._config, self._constants = role, config, constants
        self._handler: Handler | None = None

    def attack(
        self, handler: Handler, scenario: Callable[[AttackedStage], Awaitable[None]], received_megabytes: int = 0
    ) -> None:
        """Run a scenario; `handler` serves the stage's endpoint.

        The process must outlive it within its bounds, without what the clients in it hold of messages."""
        self._handler = handler

        async def within_bounds(stage: AttackedStage) -> None:
            with stage.within_bounds(self._megabytes + received_megabytes):
                await scenario(stage)
            stage.request()

        self.run(within_bounds)

    async def start(self) -> AttackedStage:
        (url,) = await self.stack.enter_async_context(listening(app_for_every_path(self._respond)))
        return await self.stack.enter_async_context(attacked_stage(self._role, self._config(url), self._constants))

    async def stop(self, running: AttackedStage) -> None:
        assert await running.stop() == 0, running.log

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        assert self._handler is not None
        return await self._handler(request)
