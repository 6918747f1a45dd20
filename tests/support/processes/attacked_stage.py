"""A stage in a process of its own that tests attack, one or one after another: what it sends, and what it takes of
memory and log."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
import orjson
from aiohttp import web

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import peak_memory, reset_peak_memory
from tests.support.processes.programs import WAIT_SECONDS, FinishedProgram, Program, as_json
from tests.support.servers.http_listener import Handler, app_for_every_path, listening
from tests.support.timing.slowness import within

T = TypeVar("T")
MAX_MEGABYTES = 300
MAX_LOG_BYTES_AN_HOUR = 1_000_000


class AttackedStage(Program):
    """The process of a role; `constants` are numbers of its modules, by dotted name, with other values than theirs.

    `messages` are what `stage_program` printed, in order. They, `log` and `peak_megabytes` count from the last
    `within_bounds`."""

    options = MappingProxyType({"stdin": subprocess.PIPE})

    def __init__(
        self,
        leftovers: Leftovers,
        role: str,
        config: msgspec.Struct,
        constants: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        file = leftovers.folder / f"{role}.config"
        file.write_bytes(msgspec.msgpack.encode(config))
        words = (role, str(file), as_json(constants))
        super().__init__(leftovers, "tests.support.processes.stage_program", *words)
        self._messages: list[dict[str, Any]] = []
        self._log_begin = 0

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, seconds: float = 10.0) -> FinishedProgram:
        """Terminates it and waits for its exit, and closes its input."""
        finished = super().stop(seconds)
        assert self.process.stdin is not None
        self.process.stdin.close()
        return finished

    @property
    def peak_megabytes(self) -> float:
        """The highest resident memory of the process so far."""
        return peak_memory(self.pid) / (1 << 20)

    @contextmanager
    def within_bounds(self, megabytes: int = MAX_MEGABYTES) -> Iterator[None]:
        """Assert at the end that the process lives, without a traceback, and kept to its memory and log meanwhile."""
        began, self._log_begin = time.monotonic(), len(self.err)
        reset_peak_memory(self.pid)
        # A status is sent when it changes: the last one still holds.
        statuses = {key: message for message in self.messages for key in message.keys() & {"head", "problems"}}
        self._messages = list(statuses.values())
        try:
            yield
        finally:
            print(f"peak {self.peak_megabytes:.0f} MB, log {len(self.log)} bytes")
        assert self.running and "Traceback" not in self.log
        assert self.peak_megabytes < megabytes
        hours = max(time.monotonic() - began, 60) / 3600
        assert len(self.log) < MAX_LOG_BYTES_AN_HOUR * hours, self.log[:3000]

    @property
    def log(self) -> str:
        """What the process has logged."""
        return self.err[self._log_begin :]

    @property
    def messages(self) -> list[dict[str, Any]]:
        self._messages += map(orjson.loads, self.new_lines())
        return self._messages

    def last(self, key: str) -> Any:
        """Return the value in the last message that has this key; None without one."""
        return next((message[key] for message in reversed(self.messages) if key in message), None)

    def request(self, *requests: Sequence[Any]) -> None:
        """Has these requests sent again and again, in place of those before."""
        assert self.process.stdin is not None
        self.process.stdin.write(orjson.dumps(requests) + b"\n")
        self.process.stdin.flush()

    async def until(self, condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
        """Return the first true value of a condition. Fails if the process exits before."""
        begin = time.monotonic()
        while not (result := condition()):
            assert self.running, f"the process exited: {self.log[-1500:]}"
            assert within(time.monotonic() - begin, seconds), f"timeout after {seconds:g} s: {what}: {self.log[-1500:]}"
            await asyncio.sleep(0.02)
        return result


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
        leftovers: Leftovers,
        role: str,
        config: Callable[[str], msgspec.Struct],
        constants: Mapping[str, float],
        megabytes: int = MAX_MEGABYTES,
    ) -> None:
        super().__init__()
        self._megabytes = megabytes
        self._start: Callable[[str], AttackedStage] = lambda url: AttackedStage(leftovers, role, config(url), constants)
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
        return self.stack.enter_context(self._start(url))

    async def stop(self, running: AttackedStage) -> None:
        assert running.stop().code == 0, running.log

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        assert self._handler is not None
        return await self._handler(request)
