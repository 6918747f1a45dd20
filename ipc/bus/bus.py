"""The bus: what one process may do with the channels of the table, and the pump that moves its messages.

Everything is at least once: whoever needs something repeats the need, states are repeated by the bus, tasks are
given out again when their worker is lost. Nothing here blocks."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import zmq

from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.bus.request import Client, Server
from rollup_node.ipc.bus.status import Publisher, Subscriber
from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport
from rollup_node.ipc.bus.worker import Source, Worker
from rollup_node.ipc.bus.worker_pool import TaskFailed, WorkerPool
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.process_id import ProcessId, Rows
from rollup_node.ipc.wire.sockets import Link, check_paths, socket_path

__all__ = ["Bus", "Client", "ProcessId", "Publisher", "Rows", "Server", "TaskFailed", "Worker", "WorkerPool"]

BOARD_SECONDS = 0.5


class ChannelEnd(Protocol):
    """One channel as one process sees it."""

    @property
    def links(self) -> Sequence[Link]:
        """The sockets, which this endpoint alone uses."""

    def drain(self) -> bool:
        """Handles what has come in; True when there may be more."""

    def tick(self, now: float) -> float:
        """Does what is due and says when to come again."""


E = TypeVar("E", bound=ChannelEnd)

_unclosed: "set[Bus]" = set()
"""Collecting a context before its sockets blocks for ever, so a bus that an error leaves behind is kept."""


class Bus:
    """All channels of one process. Made by the runtime; a test of stages uses `Bus.for_test`.

    `arenas` holds the arena of each producing row, `rows` the row numbers of each role. Making a bus takes over the
    row's arena. `run` must be running for anything to arrive."""

    def __init__(
        self,
        channels: Iterable[Channel],
        role: str,
        row: int,
        incarnation: int,
        rows: Rows,
        board: LivenessTable,
        arenas: Mapping[int, Arena],
        directory: Path,
    ) -> None:
        self.role, self.row, self.incarnation = role, row, incarnation
        self._channels = {channel.name: channel for channel in channels}
        self._rows, self._directory = rows, directory
        check_paths(directory, self._channels)
        self._courier = Transport(ProcessId(row, incarnation), board, arenas)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._endpoints: list[ChannelEnd] = []
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._board_due = 0.0
        self._on_close: list[Callable[[], None]] = []
        _unclosed.add(self)

    @staticmethod
    def for_test(
        channels: Iterable[Channel], directory: Path, copies: Mapping[str, int], *, incarnation: int = 1
    ) -> "dict[str, Bus]":
        """Buses of several roles in one process, sharing a board and arenas; see `ipc.testing.make_buses`."""
        from rollup_node.ipc.bus.testing import make_buses

        return make_buses(channels, directory, copies, incarnation=incarnation)

    @property
    def counters(self) -> dict[str, int]:
        """What went wrong and was borne, by name; see `ipc.courier.COUNTERS`."""
        return self._courier.counters

    @property
    def last_refusal(self) -> str:
        """Channel and reason of the last message refused; empty when there was none."""
        return self._courier.last_refusal

    def serve(self, channel: str, handler: Callable[[ProcessId, Any], None]) -> Server:
        """Binds an REQUEST channel that this role serves."""
        entry = self._entry(channel, Pattern.REQUEST, serving=True)
        link = self._link(entry, zmq.ROUTER)
        return self._add(Server(channel, link, self._courier, self._clients(entry), entry.up, entry.down, handler))

    def connect(self, channel: str, handler: Callable[[Any], None]) -> Client:
        """Connects to an REQUEST channel; what is sent before the server is there waits in a bounded queue."""
        entry = self._entry(channel, Pattern.REQUEST, serving=False)
        link = self._link(entry, zmq.DEALER)
        return self._add(Client(channel, link, self._courier, self._server(entry), entry.up, entry.down, handler))

    def publish(self, channel: str) -> Publisher:
        """Binds a STATUS channel that this role serves."""
        entry = self._entry(channel, Pattern.STATUS, serving=True)
        return self._add(Publisher(self._link(entry, zmq.XPUB), self._courier, entry.down))

    def subscribe(self, channel: str, handler: Callable[[Any], None]) -> Subscriber:
        """Connects to a STATUS channel."""
        entry = self._entry(channel, Pattern.STATUS, serving=False)
        link = self._link(entry, zmq.SUB)
        return self._add(Subscriber(channel, link, self._courier, self._server(entry), entry.down, handler))

    def dispatch(self, channel: str) -> WorkerPool:
        """Binds a WORK channel whose tasks this role has."""
        entry = self._entry(channel, Pattern.WORK, serving=True)
        link = self._link(entry, zmq.ROUTER)
        return self._add(WorkerPool(channel, link, self._courier, self._clients(entry), entry.down, entry.up))

    def work(self, handlers: Mapping[str, Callable[[Any], Any]]) -> Worker:
        """Runs the tasks of WORK channels, those of the first named first, by pure functions task -> result."""
        sources = []
        for channel, handler in handlers.items():
            entry = self._entry(channel, Pattern.WORK, serving=False)
            link = self._link(entry, zmq.DEALER, only_connected=True)
            sources.append(Source(channel, link, self._courier, self._server(entry), entry.down, entry.up, handler))
        return self._add(Worker(self._courier, sources))

    async def run(self) -> None:
        """The pump: moves messages until it is cancelled. Errors of handlers come out of it."""
        self._loop = asyncio.get_running_loop()
        try:
            for endpoint in self._endpoints:
                self._listen(endpoint)
            while True:
                self._wake.clear()
                due = self._pass()
                if self._wake.is_set():
                    await asyncio.sleep(0)
                else:
                    await self._pause(due)
        finally:
            for endpoint in self._endpoints:
                for link in endpoint.links:
                    self._loop.remove_reader(link.fileno)
            self._loop = None

    def close(self) -> None:
        """Closes and removes the sockets; `run` must have ended."""
        for endpoint in self._endpoints:
            for link in endpoint.links:
                link.close()
        self._endpoints = []
        self._context.destroy(linger=0)
        _unclosed.discard(self)
        while self._on_close:
            self._on_close.pop()()

    def on_close(self, action: Callable[[], None]) -> None:
        """Runs `action` once when the bus is closed."""
        self._on_close.append(action)

    def _pass(self) -> float:
        now = time.monotonic()
        if now >= self._board_due:
            self._board_due = aligned_deadline(now, BOARD_SECONDS)
            self._courier.release_dead_readers()
        due = self._board_due
        for endpoint in self._endpoints:
            if endpoint.drain():
                self._wake.set()
            due = min(due, endpoint.tick(now))
        return due

    async def _pause(self, due: float) -> None:
        alarm = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    def _listen(self, endpoint: ChannelEnd) -> None:
        if self._loop is not None:
            for link in endpoint.links:
                self._loop.add_reader(link.fileno, self._wake.set)

    def _add(self, endpoint: E) -> E:
        self._endpoints.append(endpoint)
        self._listen(endpoint)
        self._wake.set()
        return endpoint

    def _entry(self, channel: str, pattern: Pattern, *, serving: bool) -> Channel:
        entry = self._channels.get(channel)
        if entry is None or entry.pattern is not pattern:
            raise ValueError(f"there is no {pattern.value} channel {channel}")
        if self.role not in ((entry.server,) if serving else entry.clients):
            raise ValueError(f"{self.role} does not {'serve' if serving else 'use'} channel {channel}")
        return entry

    def _server(self, entry: Channel) -> int:
        (row,) = self._rows[entry.server]
        return row

    def _clients(self, entry: Channel) -> list[int]:
        return [row for role in entry.clients for row in self._rows.get(role, ())]

    def _link(self, entry: Channel, kind: int, *, queue: int = 256, only_connected: bool = False) -> Link:
        return Link(
            self._context,
            kind,
            socket_path(self._directory, entry.name),
            bind=kind in (zmq.ROUTER, zmq.XPUB),
            on_mail=self._wake.set,
            identity=self._courier.me.identity() if kind == zmq.DEALER else b"",
            queue=queue,
            only_connected=only_connected,
        )
