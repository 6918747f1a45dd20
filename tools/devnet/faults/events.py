"""What a scenario lets happen once: signals, restarts, reorgs, a full disk, a clock that jumps."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Protocol

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.tools.devnet.engine.backend import drop_last_blocks
from rollup_node.tools.devnet.faults.disk import SmallDisk
from rollup_node.tools.faults.scenario import SHALLOW_REORG, Event

LIBRARY_NAME = "libfaketime.so.1"
LIBRARY_VARIABLE = "LIBFAKETIME"
FOLDERS = ("/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib/faketime", "/opt/homebrew/lib/faketime")
READ_AGAIN_SECONDS = "1"


def find_clock_library() -> Path | None:
    """Return the library: the file that LIBFAKETIME names, or where packages put it; None if it is not installed."""
    environ = os.environ.get(LIBRARY_VARIABLE)
    if environ:
        return Path(environ) if Path(environ).is_file() else None
    result = (path for pattern in FOLDERS for path in Path("/").glob(f"{pattern[1:]}/{LIBRARY_NAME}"))
    return min(result, default=None)


class OwnClock:
    """The clock of the programs that are started with `prefix`; `file` says how far it is ahead."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        self.set(0)

    def prefix(self) -> list[str]:
        """Return what goes before a command."""
        return [
            "env",
            f"LD_PRELOAD={self._library}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            f"FAKETIME_CACHE_DURATION={READ_AGAIN_SECONDS}",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "DONT_FAKE_MONOTONIC=1",
        ]

    def set(self, seconds: int) -> None:
        """Set the clock ahead of the machine's by seconds, or behind it by a negative number of them."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n")
        fresh.replace(self._file)


WAIT_SECONDS = 110.0
POLL_SECONDS = 0.5
DEPOSITED = "0xb3813568d9991fc951961fcb4c784893574240a28925604d09fc577c55bb7c32"
"""The topic of a deposit [DEP1]."""

Call = Callable[..., Awaitable[Any]]
"""Calls a method of a URL."""


class Programs(Protocol):
    """The programs of the network."""

    l1: str
    nodes: dict[str, str]
    disk: SmallDisk | None
    clock: OwnClock | None

    @property
    def fork_time(self) -> int | None:
        """The L2 timestamp in seconds at which a fork activates that is not active at genesis, if there is one."""

    def stopped(self, program: str) -> AbstractContextManager[None]:
        """Kill a program, and start it again at the end of the context."""

    def node_pids(self, name: str) -> dict[str, int]:
        """Return the process id of each role of a node, the supervisor included."""

    def engine_data(self, name: str) -> Path:
        """Return the directory in which the engine of a node keeps its chain."""


class NoEvent(RuntimeError):
    """An event cannot happen on this network; the text says why."""


class EventCauses:
    """Lets events happen to one node of a network."""

    def __init__(self, network: Programs, node: str, call: Call) -> None:
        self._network, self._node, self._call = network, node, call

    async def cause_all(self, wanted: Sequence[Event]) -> None:
        """Let events happen, each at its time, and end what they do. Raises NoEvent."""
        causes, last = [], asyncio.Event()
        last.set()
        for event in wanted:
            done = asyncio.Event()
            causes.append(self._in_turn(event, last, done))
            last = done if event.reorg > SHALLOW_REORG else last
        await asyncio.gather(*causes)

    async def _in_turn(self, event: Event, last: asyncio.Event, done: asyncio.Event) -> None:
        await last.wait()
        try:
            await self.cause(event)
        except (EndpointError, RpcFailure) as error:
            raise NoEvent(f"an event is refused: {error}") from None
        finally:
            done.set()

    async def cause(self, event: Event) -> None:
        """Let one event happen, and end what it does after its time. Raises NoEvent, EndpointError and RpcFailure."""
        await asyncio.sleep(event.after)
        if event.kill:
            self._signal(event.kill, signal.SIGKILL)
        if event.stop:
            self._signal(event.stop, signal.SIGSTOP)
            await asyncio.sleep(event.seconds)
            self._signal(event.stop, signal.SIGCONT)
        if event.reorg:
            await self._reorg(event)
        if event.back:
            await self._call(self._network.l1, "dev_switchBack")
        if event.restart:
            with self._network.stopped(f"{self._node} {event.restart}"):
                if event.lose:
                    drop_last_blocks(self._network.engine_data(self._node), event.lose)
                await asyncio.sleep(event.seconds)
        if event.fill:
            await self._fill(event)
        if event.clock:
            await self._set_clock(event)

    def _signal(self, role: str, number: signal.Signals) -> None:
        pid = self._pids().get(role)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _pids(self) -> dict[str, int]:
        with suppress(OSError, ValueError):
            return self._network.node_pids(self._node)
        return {}

    async def _reorg(self, event: Event) -> None:
        """Make a deep one as soon as L1 has the blocks, and among them what is wanted."""
        deadline = time.monotonic() + WAIT_SECONDS
        while event.reorg > SHALLOW_REORG and (missing := await self._missing(event)):
            if time.monotonic() > deadline:
                raise NoEvent(f"no reorg of {event.reorg} blocks: {missing}")
            await asyncio.sleep(POLL_SECONDS)
        await self._call(self._network.l1, "dev_reorg", event.reorg)

    async def _missing(self, event: Event) -> str:
        """Return what the last blocks of L1 lack for a reorg; empty if nothing."""
        head = int(await self._call(self._network.l1, "eth_blockNumber"), 16)
        first = head - event.reorg + 1
        if first < 2:
            return f"L1 has only {head} blocks"
        wanted = {"fromBlock": hex(first), "toBlock": hex(head), "topics": [DEPOSITED]}
        if not await self._call(self._network.l1, "eth_getLogs", wanted):
            return "there is no deposit among them"
        if event.across:
            times = [await self._time(number) for number in (first, head)]
            if self._network.fork_time is None or not times[0] < self._network.fork_time <= times[1]:
                return "no fork activates among them"
        return ""

    async def _time(self, number: int) -> int:
        block = await self._call(self._network.l1, "eth_getBlockByNumber", hex(number), False)
        return int(block["timestamp"], 16)

    async def _fill(self, event: Event) -> None:
        disk = self._network.disk
        if disk is None:
            raise NoEvent("the network has no small disk")
        disk.fill(self._pids().values())
        try:
            await asyncio.sleep(event.seconds)
        finally:
            disk.free(self._pids().values())

    async def _set_clock(self, event: Event) -> None:
        clock = self._network.clock
        if clock is None:
            raise NoEvent("the network has no clock of its own")
        clock.set(event.clock)
        try:
            await asyncio.sleep(event.seconds)
        finally:
            clock.set(0)
