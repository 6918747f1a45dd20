"""The bus: the channels of one process, and the pump that moves their messages.

Delivery is at least once: clients repeat their requests, subscribers ask again for states, tasks are assigned again
when their worker is lost. While nothing happens the pump turns once a second, for the heartbeat of the process and to
notice what is lost. Nothing here blocks."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

import zmq

from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.bus.status import Client, Publisher, Server, Subscriber
from rollup_node.ipc.bus.task_dispatcher import TaskDispatcher, TaskFailed
from rollup_node.ipc.bus.timers import aligned_deadline
from rollup_node.ipc.bus.transport import Transport
from rollup_node.ipc.bus.worker import TaskSource, Worker
from rollup_node.ipc.shared_memory.arena import Arena
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.process_id import ProcessId, Slots
from rollup_node.ipc.wire.sockets import ChannelSocket, socket_path

__all__ = [
    "Bus",
    "Client",
    "GroupView",
    "ProcessId",
    "Publisher",
    "Server",
    "Slots",
    "TaskDispatcher",
    "TaskFailed",
    "Worker",
]

LIVENESS_SECONDS = 1.0


class ChannelEnd(Protocol):
    """One channel as one process sees it."""

    @property
    def sockets(self) -> Sequence[ChannelSocket]:
        """The sockets, used by this end alone."""

    def receive(self) -> bool:
        """Handle waiting messages; True when there may be more."""

    def tick(self, now: float) -> float:
        """Do what is due at the monotonic time `now`; returns the time of the next tick."""


E = TypeVar("E", bound=ChannelEnd)

_unclosed: "set[Bus]" = set()
"""Every open bus. Without this reference an error could leave a context to the garbage collector, and collecting it
before its sockets blocks for ever."""


class Bus:
    """All channels of one process. The runtime creates it; `tools.api.in_process` creates several in one process.

    `arenas` holds the arena of each producing slot. Creating a bus takes over the arena of its slot. Messages arrive
    only while `run` runs. `counters` has messages and tasks that failed, by the names of `transport.COUNTERS`."""

    def __init__(
        self,
        channels: Iterable[Channel],
        role: str,
        process_id: ProcessId,
        slots: Slots,
        liveness: LivenessTable,
        arenas: Mapping[int, Arena],
        directory: Path,
        group: str = "",
    ) -> None:
        self.role, self.process_id, self.group = role, process_id, group
        self._channels = {channel.name: channel for channel in channels}
        self._slots, self._directory = slots, directory
        self._groups = {slot: group for (_, group), members in slots.items() for slot in members}
        self.transport = Transport(process_id, liveness, arenas)
        self.counters = self.transport.counters
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._ends: list[ChannelEnd] = []
        self._connected: set[str] = set()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._liveness_due = self._due = 0.0
        self._readable: set[ChannelEnd] = set()
        self._on_close: list[Callable[[], None]] = []
        _unclosed.add(self)

    @property
    def last_rejection(self) -> str:
        """Channel and reason of the last message that was rejected; empty when none was."""
        return self.transport.last_rejection

    def within(self, group: str) -> "GroupView":
        """Return what a shared process sees of the servers of a group."""
        return GroupView(self, group)

    def group_of(self, process: ProcessId) -> str:
        """Return the group of a process, "" for a shared one."""
        return self._groups[process.slot]

    def serve(self, channel: str, handler: Callable[[ProcessId, Any], object]) -> Server:
        """Bind a REQUEST channel that this role serves, to the clients of its group, or to all if it is shared."""
        entry = self._entry(channel, Pattern.REQUEST, serving=True)
        socket = self._socket(entry, self.group, zmq.ROUTER)
        return self._add(Server(channel, socket, self.transport, self._clients(entry), entry.up, handler, entry.down))

    def connect(
        self,
        channel: str,
        handler: Callable[[Any], object],
        on_restart: Callable[[], object] = lambda: None,
        *,
        group: str | None = None,
    ) -> Client:
        """Connect to a REQUEST channel, once; requests before the server runs wait in a bounded queue.

        The server is that of `group`, by default this process's own, or else the shared one. `on_restart` is called
        when the server has been started again."""
        entry = self._entry(channel, Pattern.REQUEST, serving=False)
        owner, server = self._server(entry, group)
        if (name := entry.socket_name(owner)) in self._connected:
            raise ValueError(f"{self.role} is connected to channel {name}")
        self._connected.add(name)
        socket = self._socket(entry, owner, zmq.DEALER)
        client = Client(channel, socket, self.transport, (server,), entry.down, handler, entry.up)
        client.on_restart = on_restart
        return self._add(client)

    def publish(self, channel: str) -> Publisher:
        """Bind a STATUS channel that this role serves."""
        entry = self._entry(channel, Pattern.STATUS, serving=True)
        socket = self._socket(entry, self.group, zmq.XPUB)
        return self._add(Publisher(socket, self.transport, entry.down, self._wake.set))

    def subscribe(self, channel: str, handler: Callable[[Any], object], *, group: str | None = None) -> Subscriber:
        """Connect to a STATUS channel, with the server that `connect` would have."""
        entry = self._entry(channel, Pattern.STATUS, serving=False)
        owner, server = self._server(entry, group)
        socket = self._socket(entry, owner, zmq.SUB)
        return self._add(Subscriber(channel, socket, self.transport, (server,), entry.down, handler))

    def dispatch(self, channel: str) -> TaskDispatcher:
        """Bind a WORK channel on which this role dispatches tasks."""
        entry = self._entry(channel, Pattern.WORK, serving=True)
        socket = self._socket(entry, self.group, zmq.ROUTER)
        return self._add(TaskDispatcher(channel, socket, self.transport, self._clients(entry), entry.down, entry.up))

    def work(self, handlers: Mapping[str, Callable[[Any], Any]]) -> Worker:
        """Run the tasks of WORK channels by pure functions task -> result, those of the first channel first.

        If there are several groups, all dispatchers take turns: none waits for the tasks of another group. A channel
        without a dispatcher has no tasks."""
        channels = []
        for channel, handler in handlers.items():
            entry = self._entry(channel, Pattern.WORK, serving=False)
            sources = []
            for (role, group), slots in self._slots.items():
                for slot in slots if role == entry.server else ():
                    socket = self._socket(entry, group, zmq.DEALER, only_connected=True)
                    sources.append(TaskSource(channel, socket, self.transport, slot, entry.down, entry.up, handler))
            channels.append(sources)
        has_groups = any(len(sources) > 1 for sources in channels)
        return self._add(Worker([list(chain.from_iterable(channels))] if has_groups else channels))

    async def run(self) -> None:
        """Move messages until it is cancelled. Exceptions of handlers propagate."""
        self._loop = asyncio.get_running_loop()
        try:
            for end in self._ends:
                self._listen(end)
            while True:
                self._wake.clear()
                due = self._poll()
                if self._wake.is_set():
                    await asyncio.sleep(0)
                else:
                    await self._wait(due)
        finally:
            for end in self._ends:
                for socket in end.sockets:
                    self._loop.remove_reader(socket.fileno)
            self._loop = None

    def close(self) -> None:
        """Close and remove the sockets; `run` must have ended."""
        for end in self._ends:
            for socket in end.sockets:
                socket.close()
        self._ends = []
        self._context.destroy(linger=0)
        _unclosed.discard(self)
        while self._on_close:
            self._on_close.pop()()

    def on_close(self, action: Callable[[], None]) -> None:
        """Register `action` to run once, after the bus is closed."""
        self._on_close.append(action)

    def _poll(self) -> float:
        """Receive on the readable ends, and on all when a tick is due: finding nothing costs as much as a message."""
        now = time.monotonic()
        readable, self._readable = set(self._ends) if now >= self._due else self._readable, set()
        if now >= self._liveness_due:
            self._liveness_due = aligned_deadline(now, LIVENESS_SECONDS)
            self.transport.liveness.beat(self.process_id.slot)
            self.transport.release_dead_readers()
            self._bind_again()
        due = self._liveness_due
        for end in self._ends:
            if end in readable and end.receive():
                self._on_readable(end)
            due = min(due, end.tick(now))
        self._due = due
        return due

    def _bind_again(self) -> None:
        """Bind the sockets whose files something else has removed, such as a cleaner of temporary folders."""
        for socket in (socket for end in self._ends for socket in end.sockets):
            try:
                self.counters["sockets_bound_again"] += socket.bind_again()
            except (OSError, zmq.ZMQError):
                self.counters["binds_failed"] += 1

    def _on_readable(self, end: ChannelEnd) -> None:
        self._readable.add(end)
        self._wake.set()

    async def _wait(self, due: float) -> None:
        alarm = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    def _listen(self, end: ChannelEnd) -> None:
        if self._loop is not None:
            for socket in end.sockets:
                self._loop.add_reader(socket.fileno, self._on_readable, end)

    def _add(self, end: E) -> E:
        self._ends.append(end)
        for socket in end.sockets:
            socket.on_readable = partial(self._on_readable, end)
        self._listen(end)
        self._on_readable(end)
        return end

    def _entry(self, channel: str, pattern: Pattern, *, serving: bool) -> Channel:
        entry = self._channels.get(channel)
        if entry is None or entry.pattern is not pattern:
            raise ValueError(f"there is no {pattern.value} channel {channel}")
        if self.role not in ((entry.server,) if serving else entry.clients):
            raise ValueError(f"{self.role} does not {'serve' if serving else 'use'} channel {channel}")
        return entry

    def _server(self, entry: Channel, group: str | None) -> tuple[str, int]:
        """Return the group that the server of a channel for a group belongs to, and its slot."""
        for owner in (self.group if group is None else group, ""):
            if slots := self._slots.get((entry.server, owner)):
                (slot,) = slots
                return owner, slot
        raise ValueError(f"this node runs no {entry.server}, which serves channel {entry.name}")

    def _clients(self, entry: Channel) -> list[int]:
        groups = (self.group, "") if self.group else self._groups.values()
        return [
            slot
            for (role, group), slots in self._slots.items()
            if role in entry.clients and group in groups
            for slot in slots
        ]

    def _socket(self, entry: Channel, group: str, kind: int, *, only_connected: bool = False) -> ChannelSocket:
        return ChannelSocket(
            self._context,
            kind,
            socket_path(self._directory, entry.socket_name(group)),
            bind=kind in (zmq.ROUTER, zmq.XPUB),
            routing_id=self.process_id.routing_id() if kind == zmq.DEALER else b"",
            only_connected=only_connected,
        )


class GroupView:
    """The servers of one group, and the shared ones, as a shared process reaches them [LIF33]."""

    def __init__(self, bus: Bus, group: str) -> None:
        self._bus, self.group = bus, group

    def connect(
        self, channel: str, handler: Callable[[Any], object], on_restart: Callable[[], object] = lambda: None
    ) -> Client:
        """Connect to a REQUEST channel, as `Bus.connect`."""
        return self._bus.connect(channel, handler, on_restart, group=self.group)

    def subscribe(self, channel: str, handler: Callable[[Any], object]) -> Subscriber:
        """Connect to a STATUS channel, as `Bus.subscribe`."""
        return self._bus.subscribe(channel, handler, group=self.group)
