"""Forked processes for kill tests: run as `python forked_processes.py SCENARIO DIRECTORY`, prints one line of JSON.

This process acts as the supervisor: it creates liveness table and arenas, forks, kills and restarts. It has no thread
and no ZeroMQ context of its own; each child reports through a pipe, a line of JSON at a time."""

import asyncio
import contextlib
import ctypes
import functools
import hashlib
import itertools
import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.shared_memory.arena import Arena, Descriptor
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.stages.io.task import cancel_all

PR_SET_PDEATHSIG = 1


class PayloadRequest(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


class Payload(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    digest: bytes
    data: bytes


PAYLOADS = "producer.payloads"
CHANNELS = (Channel(PAYLOADS, Pattern.REQUEST, "producer", ("reader",), up=PayloadRequest, down=Payload),)
PRODUCER, READERS = 0, (1, 2)
SLOTS = {("producer", ""): [PRODUCER], ("reader", ""): [*READERS]}
ROLES = {slot: role for (role, _), slots in SLOTS.items() for slot in slots}
Report = dict[str, Any]
Reporter = Callable[..., None]
Main = Callable[[Bus, Reporter], Coroutine[Any, Any, None]]


class ForkedProcesses:
    """The processes of one scenario; `reports` are what they reported, each with its slot."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.liveness = LivenessTable(len(ROLES))
        self.arenas = {slot: Arena(len(ROLES)) for slot in ROLES}
        self.pids: dict[int, int] = {}
        self.pipes: dict[int, int] = {}
        self.partial: dict[int, bytes] = {}
        self.reports: list[tuple[int, Report]] = []

    def start(self, slot: int, main: Main) -> None:
        incarnation = self.liveness.incarnation(slot) + 1
        self.liveness.start(slot, incarnation)
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._child(ProcessId(slot, incarnation), writing, parent, main)
        os.close(writing)
        self.pids[slot], self.pipes[slot] = pid, reading

    def _child(self, process_id: ProcessId, pipe: int, parent: int, main: Main) -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        status = 1
        try:
            if os.getppid() == parent:
                keep = {0, 1, 2, pipe, self.liveness.fd, *(arena.fd for arena in self.arenas.values())}
                for fd in map(int, os.listdir("/proc/self/fd")):
                    if fd not in keep:
                        with contextlib.suppress(OSError):
                            os.close(fd)
                role = ROLES[process_id.slot]
                bus = Bus(CHANNELS, role, process_id, SLOTS, self.liveness, self.arenas, self.directory)
                asyncio.run(self._run(bus, main, lambda **report: write_report(pipe, report)))
                status = 0
        finally:
            os._exit(status)

    async def _run(self, bus: Bus, main: Main, report: Reporter) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(bus.run()),
            asyncio.create_task(main(bus, report)),
            asyncio.create_task(stop.wait()),
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await cancel_all(tasks)
        bus.close()
        for task in done:
            task.result()

    def kill(self, slot: int, number: signal.Signals = signal.SIGKILL) -> int:
        """End a process and reads its last reports; its exit status."""
        pid, pipe = self.pids.pop(slot), self.pipes.pop(slot)
        os.kill(pid, number)
        while self._read_pipe(slot, pipe):
            pass
        os.close(pipe)
        self.partial.pop(slot, None)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def restart(self, slot: int, main: Main) -> None:
        self.kill(slot)
        self.start(slot, main)

    def read(self, seconds: float) -> None:
        """Collect reports for that long."""
        end = time.monotonic() + seconds
        slots = {pipe: slot for slot, pipe in self.pipes.items()}
        while (left := end - time.monotonic()) > 0:
            for pipe in select.select(list(slots), [], [], left)[0]:
                if not self._read_pipe(slots[pipe], pipe):
                    raise RuntimeError(f"the process in slot {slots[pipe]} ended by itself")

    def _read_pipe(self, slot: int, pipe: int) -> bool:
        data = os.read(pipe, 1 << 20)
        *lines, self.partial[slot] = (self.partial.get(slot, b"") + data).split(b"\n")
        self.reports += [(slot, json.loads(line)) for line in lines]
        return bool(data)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> bool:
        """Collect reports until the condition holds; False when it does not in time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            self.read(0.02)
        return True

    def total(self, name: str) -> int:
        """Return the sum of what was reported under that name."""
        return sum(report.get(name, 0) for _, report in self.reports)

    def values(self, name: str) -> list[Any]:
        """Everything that was reported under that name."""
        return [report[name] for _, report in self.reports if name in report]

    def wait_for_progress(self, name: str, count: int) -> bool:
        """Wait until the total has risen that much: on a slow machine nothing happens between two kills."""
        before = self.total(name)
        return self.wait_for(lambda: self.total(name) >= before + count)

    def stop(self) -> list[int]:
        """Stop all, the last slot first; their exit statuses."""
        return [self.kill(slot, signal.SIGTERM) for slot in sorted(self.pids, reverse=True)]


def write_report(pipe: int, report: Report) -> None:
    os.write(pipe, json.dumps(report).encode() + b"\n")


# What the processes run.


NUMBERS = 40


@functools.cache
def payload(number: int) -> Payload:
    data = random.Random(number).randbytes(1 << 14) * (5 + 2 * number)
    return Payload(number, hashlib.sha256(data).digest(), data)


async def produce(bus: Bus, report: Reporter) -> None:
    """Responds to each request with a large payload; reports its free chunks less all its chunks."""
    server = bus.serve(PAYLOADS, lambda reader, message: server.send(reader, payload(message.number)))
    arena = bus.transport.arenas[PRODUCER]
    while True:
        await asyncio.sleep(0.1)
        arena.reap()
        report(free_chunks=arena.free - arena.chunks, inline=bus.counters["arena_full_inline"])


async def read_payloads(bus: Bus, report: Reporter) -> None:
    """Keep six requests outstanding, repeats them, and checks the responses."""
    numbers = random.Random(os.getpid())
    outstanding: dict[int, float] = {}

    def on_payload(message: Payload) -> None:
        right = message == payload(message.number)
        outstanding.pop(message.number, None)
        report(right=int(right), wrong=int(not right))

    client = bus.connect(PAYLOADS, on_payload)
    lost = 0
    while True:
        await asyncio.sleep(0.005)
        if numbers.random() < 0.2:
            time.sleep(0.03)
        while len(outstanding) < 6:
            outstanding[numbers.randrange(NUMBERS)] = 0.0
        now = time.monotonic()
        for number in [number for number, when in outstanding.items() if now - when > 0.2]:
            outstanding[number] = now
            client.send(PayloadRequest(number))
        lost_now = bus.counters["messages_void"] + bus.counters["messages_stale"]
        if lost_now > lost:
            report(lost=lost_now - lost)
            lost = lost_now


async def request_and_hang(bus: Bus, report: Reporter) -> None:
    """Request twenty payloads and receives none of them, so that they stay in the arena."""
    client = bus.connect(PAYLOADS, lambda message: None)
    for number in range(20):
        client.send(PayloadRequest(number))
    report(requested=20)
    time.sleep(60)


async def write_forever(bus: Bus, report: Reporter) -> None:
    """Write values of up to ten chunks, each one number repeated."""
    arena, chance = bus.transport.arenas[PRODUCER], random.Random()
    for number in itertools.count():
        data = number.to_bytes(8, "big") * chance.randrange(1, 160_000)
        descriptor = arena.put(data, 1)
        if descriptor is not None:
            report(length=descriptor.length, chunks=descriptor.chunks)


async def idle(bus: Bus, report: Reporter) -> None:
    report(idle=1)
    await asyncio.sleep(60)


# Scenarios: what is killed, and what is reported of it.


def killed_in_mid_write(processes: ForkedProcesses) -> Report:
    """Kill the writer at any instruction: what its descriptors give is whole or nothing, also much later."""
    arena, chance, counts = processes.arenas[PRODUCER], random.Random(8), Counter[str]()
    late: list[Descriptor] = []

    def check(descriptor: Descriptor) -> None:
        data = arena.get(descriptor)
        arena.ack(1, descriptor)
        if data is None:
            counts["void"] += 1
        else:
            counts["right" if data == data[:8] * (len(data) // 8) else "wrong"] += 1

    for _ in range(30):
        processes.start(PRODUCER, write_forever)
        processes.wait_for(lambda: len(processes.reports) >= 5)
        processes.read(chance.uniform(0.0, 0.01))
        processes.kill(PRODUCER)
        for descriptor in late:
            check(descriptor)
        descriptors = [
            Descriptor(report["length"], tuple(map(tuple, report["chunks"]))) for _, report in processes.reports
        ]
        processes.reports.clear()
        late = descriptors[1::2]
        for descriptor in descriptors[::2]:
            check(descriptor)
    return dict(counts)


def both_ends_killed(processes: ForkedProcesses) -> Report:
    """Kill a reader while twenty values for it lie in the arena, then the producer and both readers at random."""

    def free() -> int:
        """Free chunks, less all chunks: 0 when all are free."""
        result: list[int] = processes.values("free_chunks")
        return result[-1] if result else 0

    # All share the payloads: each process would make all of them again.
    for number in range(NUMBERS):
        payload(number)
    processes.start(PRODUCER, produce)
    processes.start(READERS[0], request_and_hang)
    processes.wait_for(lambda: processes.total("requested") > 0 and free() < -10)
    held = -free()
    processes.restart(READERS[0], read_payloads)
    freed = processes.wait_for(lambda: processes.total("right") > 10)
    processes.start(READERS[1], read_payloads)
    chance = random.Random(6)
    for number in range(40):
        processes.read(chance.uniform(0.01, 0.1))
        if number % 3 == 0:
            processes.wait_for_progress("right", 4)
        slot = chance.choice((PRODUCER, PRODUCER, *READERS))
        processes.restart(slot, produce if slot == PRODUCER else read_payloads)
    went_on = processes.wait_for_progress("right", 21)
    for slot in READERS:
        processes.restart(slot, idle)
    all_free = processes.wait_for(lambda: processes.total("idle") == 2 and free() == 0)
    counts = {name: processes.total(name) for name in ("right", "wrong")}
    return {"held": held, "freed": freed, "went_on": went_on, "all_free": all_free, **counts}


SCENARIOS = (killed_in_mid_write, both_ends_killed)


def main() -> None:
    scenario = {scenario.__name__: scenario for scenario in SCENARIOS}[sys.argv[1]]
    processes = ForkedProcesses(Path(sys.argv[2]))
    report = scenario(processes)
    report["exits"] = processes.stop()
    report["files"] = sorted(os.listdir(processes.directory))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
