"""Real processes for kill tests: run as `python family.py SCENARIO DIRECTORY`, prints one line of JSON.

This process plays the supervisor: it makes board and arenas, forks, kills and starts again. It has no thread and no
ZeroMQ context of its own; what its children tell comes by one pipe each, a line of JSON at a time."""

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus, TaskFailed
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.shared_memory.arena import Arena, Descriptor
from rollup_node.ipc.shared_memory.liveness import LivenessTable

PR_SET_PDEATHSIG = 1


class Want(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


class Goods(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    digest: bytes
    data: bytes


class Job(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes


class Result(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    digest: bytes
    data: bytes


CHANNELS = (
    Channel("maker.goods", Pattern.REQUEST, "maker", ("taker",), up=Want, down=Goods),
    Channel("maker.work", Pattern.WORK, "maker", ("hand",), down=Job, up=Result),
    Channel("maker.state", Pattern.STATUS, "maker", ("taker",), down=Want),
)
ROWS = {"maker": [0], "taker": [1, 2], "hand": [3, 4]}
ROLE = {row: role for role, rows in ROWS.items() for row in rows}
Main = Callable[[Bus, Callable[..., None]], Any]


class Family:
    """The processes of one scenario."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.board = LivenessTable(len(ROLE))
        self.arenas = {row: Arena(len(ROLE)) for row in ROLE}
        self.pids: dict[int, int] = {}
        self.pipes: dict[int, int] = {}
        self.rest: dict[int, bytes] = {}
        self.told: list[tuple[int, dict[str, Any]]] = []

    def start(self, row: int, main: Main) -> None:
        incarnation = self.board.incarnation(row) + 1
        self.board.start(row, incarnation)
        reading, writing = os.pipe()
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._child(row, incarnation, writing, me, main)
        os.close(writing)
        self.pids[row], self.pipes[row] = pid, reading

    def _child(self, row: int, incarnation: int, writing: int, parent: int, main: Main) -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        status = 1
        try:
            if os.getppid() == parent:
                keep = {0, 1, 2, writing, self.board.fd, *(arena.fd for arena in self.arenas.values())}
                for fd in map(int, os.listdir("/proc/self/fd")):
                    if fd not in keep:
                        close(fd)
                bus = Bus(CHANNELS, ROLE[row], row, incarnation, ROWS, self.board, self.arenas, self.directory)
                asyncio.run(self._live(bus, main, lambda **what: tell(writing, what)))
                status = 0
        finally:
            os._exit(status)

    async def _live(self, bus: Bus, main: Main, say: Callable[..., None]) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        tasks = [asyncio.create_task(work) for work in (bus.run(), main(bus, say), stop.wait())]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        bus.close()
        for task in done:
            task.result()

    def kill(self, row: int, number: signal.Signals = signal.SIGKILL) -> int:
        """Ends a process and reads what it has told; its exit status."""
        pid, pipe = self.pids.pop(row), self.pipes.pop(row)
        os.kill(pid, number)
        while self._read_pipe(row, pipe):
            pass
        os.close(pipe)
        self.rest.pop(row, None)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def restart(self, row: int, main: Main) -> None:
        self.kill(row)
        self.start(row, main)

    def read(self, seconds: float) -> None:
        """Collects what the children tell for so long."""
        end = time.monotonic() + seconds
        rows = {pipe: row for row, pipe in self.pipes.items()}
        while (left := end - time.monotonic()) > 0:
            for pipe in select.select(list(rows), [], [], left)[0]:
                if not self._read_pipe(rows[pipe], pipe):
                    raise RuntimeError(f"row {rows[pipe]} ended by itself")

    def _read_pipe(self, row: int, pipe: int) -> bool:
        chunk = os.read(pipe, 1 << 20)
        *lines, self.rest[row] = (self.rest.get(row, b"") + chunk).split(b"\n")
        self.told += [(row, json.loads(line)) for line in lines]
        return bool(chunk)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> bool:
        """Reads until the condition holds; False when it does not in time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            self.read(0.02)
        return True

    def tally(self, name: str) -> int:
        """The sum of what was told under this name."""
        return sum(what.get(name, 0) for _, what in self.told)

    def stop(self) -> list[int]:
        """Ends all, the last row first; their exit statuses."""
        return [self.kill(row, signal.SIGTERM) for row in sorted(self.pids, reverse=True)]


def gains(family: Family, name: str, count: int) -> bool:
    """Waits until so much more was told under a name: on a slow machine nothing happens between two kills."""
    before = family.tally(name)
    return family.wait_for(lambda: family.tally(name) >= before + count)


def close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def tell(pipe: int, what: dict[str, Any]) -> None:
    os.write(pipe, json.dumps(what).encode() + b"\n")


@functools.cache
def goods(number: int) -> Goods:
    data = random.Random(number).randbytes(1 << 14) * (5 + 2 * number)
    return Goods(number, hashlib.sha256(data).digest(), data)


async def make(bus: Bus, say: Callable[..., None]) -> None:
    """Answers each need with large goods; tells how many of its slots are free."""
    server = bus.serve("maker.goods", lambda peer, message: bool(server.send(peer, goods(message.number))))  # type: ignore[arg-type,return-value]
    arena = bus._courier._arenas[0]
    while True:
        await asyncio.sleep(0.1)
        arena.reap()
        say(free_slots=arena.free - arena.slots, inline=bus.counters["arena_full_inline"])


async def take(bus: Bus, say: Callable[..., None]) -> None:
    """Keeps six needs outstanding, repeats them, checks what comes."""
    numbers = random.Random(os.getpid())
    wanted: dict[int, float] = {}

    def got(message: Goods) -> None:
        right = hashlib.sha256(message.data).digest() == message.digest and message == goods(message.number)
        wanted.pop(message.number, None)
        say(right=int(right), wrong=int(not right))

    client = bus.connect("maker.goods", got)
    lost = 0
    while True:
        await asyncio.sleep(0.005)
        if numbers.random() < 0.2:
            time.sleep(0.03)
        while len(wanted) < 6:
            wanted[numbers.randrange(40)] = 0.0
        now = time.monotonic()
        for number in [number for number, when in wanted.items() if now - when > 0.2]:
            wanted[number] = now
            client.send(Want(number))
        now_lost = bus.counters["messages_void"] + bus.counters["messages_stale"]
        if now_lost > lost:
            say(lost=now_lost - lost)
            lost = now_lost


async def hoard(bus: Bus, say: Callable[..., None]) -> None:
    """Asks for twenty goods and then stops taking anything in, so that they stay in the arena."""
    client = bus.connect("maker.goods", lambda message: None)
    for number in range(20):
        client.send(Want(number))
    say(asked=20)
    time.sleep(60)


async def write_forever(bus: Bus, say: Callable[..., None]) -> None:
    """Does nothing but write values of up to ten slots, each one number repeated."""
    arena, chance = bus._courier._arenas[0], random.Random()
    for number in itertools.count():
        data = number.to_bytes(8, "big") * chance.randrange(1, 160_000)
        descriptor = arena.put(data, (1,))
        if descriptor is not None:
            say(length=descriptor.length, slots=descriptor.slots)


def killed_in_mid_write(family: Family) -> dict[str, Any]:
    """The writer is killed at any instruction; what its descriptors give is whole or nothing, also much later."""
    arena, chance, counts = family.arenas[0], random.Random(8), Counter[str]()
    late: list[Descriptor] = []

    def check(descriptor: Descriptor) -> None:
        data = arena.get(descriptor)
        arena.ack(1, descriptor)
        if data is None:
            counts["void"] += 1
        else:
            counts["right" if data == data[:8] * (len(data) // 8) else "wrong"] += 1

    for _ in range(60):
        family.start(0, write_forever)
        family.wait_for(lambda: len(family.told) >= 5)
        family.read(chance.uniform(0.0, 0.01))
        family.kill(0)
        for descriptor in late:
            check(descriptor)
        descriptors = [Descriptor(what["length"], tuple(map(tuple, what["slots"]))) for _, what in family.told]
        family.told.clear()
        late = descriptors[1::2]
        for descriptor in descriptors[::2]:
            check(descriptor)
    return dict(counts)


def producer_killed(family: Family) -> dict[str, Any]:
    """The producer is killed again and again while it writes and its two readers read."""
    for row, main in ((0, make), (1, take), (2, take)):
        family.start(row, main)
    chance = random.Random(5)
    family.wait_for(lambda: family.tally("right") > 5)
    for number in range(40):
        family.read(chance.uniform(0.01, 0.12))
        if number % 3 == 0:
            gains(family, "right", 4)
        family.restart(0, make)
    before = family.tally("right")
    went_on = family.wait_for(lambda: family.tally("right") > before + 20)
    return {
        "right": family.tally("right"),
        "wrong": family.tally("wrong"),
        "lost": family.tally("lost"),
        "went_on": went_on,
    }


def reader_killed(family: Family) -> dict[str, Any]:
    """A reader is killed while twenty values for it lie in the arena, others are killed at random."""

    def free() -> int:
        said = [what["free_slots"] for _, what in family.told if "free_slots" in what]
        return int(said[-1]) if said else 0

    family.start(0, make)
    family.start(1, hoard)
    family.wait_for(lambda: family.tally("asked") > 0 and free() < -10)
    held = -free()
    family.restart(1, take)
    freed = family.wait_for(lambda: family.tally("right") > 10)
    family.start(2, take)
    chance = random.Random(6)
    for number in range(30):
        family.read(chance.uniform(0.01, 0.1))
        if number % 3 == 0:
            gains(family, "right", 4)
        family.restart(chance.choice((1, 2)), take)
    for row in (1, 2):
        family.restart(row, idle)
    all_free = family.wait_for(lambda: family.tally("idle") == 2 and free() == 0)
    return {
        "held": held,
        "freed": freed,
        "all_free": all_free,
        "wrong": family.tally("wrong"),
        "right": family.tally("right"),
    }


async def idle(bus: Bus, say: Callable[..., None]) -> None:
    say(idle=1)
    await asyncio.sleep(60)


JOBS = 400


def job(number: int) -> Job:
    size = (100, 3_000, 100_000, 400_000)[number % 4]
    return Job(number, number.to_bytes(4, "big") * (size // 4))


def solve(task: Job) -> Result:
    end = time.process_time() + 0.004
    while time.process_time() < end:
        pass
    return Result(task.number, hashlib.sha256(task.data).digest(), task.data[::-1])


async def hand(bus: Bus, say: Callable[..., None]) -> None:
    bus.work({"maker.work": solve})
    await asyncio.sleep(600)


def dispatch_from(done: set[int]) -> Main:
    """A dispatcher that has all the jobs done that are not yet, at most 30 at once."""

    async def dispatch(bus: Bus, say: Callable[..., None]) -> None:
        pool = bus.dispatch("maker.work")
        pool.dispatcher.max_deaths = 1000  # the killer is not among the tasks here
        room = asyncio.Semaphore(30)

        async def run(number: int) -> None:
            async with room:
                task = job(number)
                try:
                    result = await pool.run(task)
                except TaskFailed as failed:
                    say(failed=failed.reason)
                    return
                right = result == Result(number, hashlib.sha256(task.data).digest(), task.data[::-1])
                say(done=number, right=int(right), incarnation=bus.incarnation)

        await asyncio.gather(*(run(number) for number in range(JOBS) if number not in done))
        say(ended=1, outstanding=pool.dispatcher.outstanding, **bus.counters)
        await asyncio.sleep(60)

    return dispatch


def workers_killed(family: Family) -> dict[str, Any]:
    """Workers killed and stopped at random, the dispatcher killed twice: each job has its right result once in each
    dispatcher's life, and none is missing."""

    def done() -> list[tuple[int, int]]:
        return [(what["incarnation"], what["done"]) for _, what in family.told if "done" in what]

    family.start(0, dispatch_from(set()))
    for row in (3, 4):
        family.start(row, hand)
    chance = random.Random(7)
    kills = stops = 0
    for threshold in (JOBS // 4, JOBS // 2, JOBS):
        while len({number for _, number in done()}) < threshold - 40:
            row = chance.choice((3, 4))
            family.read(chance.uniform(0.01, 0.06))
            if kills % 3 == 0:
                gains(family, "right", 1)
            if chance.random() < 0.2:
                os.kill(family.pids[row], signal.SIGSTOP)
                family.read(0.1)
                os.kill(family.pids[row], signal.SIGCONT)
                stops += 1
            else:
                family.restart(row, hand)
                kills += 1
            if kills > 200:
                break
        if threshold < JOBS:
            family.kill(0)
            family.start(0, dispatch_from({number for _, number in done()}))
    ended = family.wait_for(lambda: family.tally("ended") > 0)
    pairs = done()
    last = next((what for _, what in family.told if "ended" in what), {})
    return {
        "ended": ended,
        "kills": kills,
        "stops": stops,
        "missing": JOBS - len({number for _, number in pairs}),
        "doubled": max(Counter(pairs).values()) - 1,
        "repeated": len(pairs) - len({number for _, number in pairs}),
        "wrong": sum(1 for _, what in family.told if what.get("right") == 0),
        "failed": [what["failed"] for _, what in family.told if "failed" in what],
        "last": last,
    }


def restarted_server(family: Family) -> dict[str, Any]:
    """States go on after a publisher is killed; files of the dead are taken over and removed at a clean end."""

    async def publish(bus: Bus, say: Callable[..., None]) -> None:
        publisher = bus.publish("maker.state")
        bus.serve("maker.goods", lambda peer, message: None)
        for number in range(10**6):
            publisher.set(Want(bus.incarnation * 1000 + number))
            await asyncio.sleep(0.002)

    async def watch(bus: Bus, say: Callable[..., None]) -> None:
        bus.subscribe("maker.state", lambda state: say(state=state.number))
        bus.connect("maker.goods", lambda message: None)
        await asyncio.sleep(60)

    def newest() -> int:
        return max((what["state"] for _, what in family.told if "state" in what), default=0)

    family.start(0, publish)
    family.start(1, watch)
    for incarnation in range(1, 6):
        if not family.wait_for(lambda wanted=incarnation: newest() >= wanted * 1000):  # type: ignore[misc]
            return {"stuck": incarnation}
        family.restart(0, publish)
    family.wait_for(lambda: newest() >= 6000)
    states = [what["state"] for _, what in family.told if "state" in what]
    return {"ordered": states == sorted(set(states)), "newest": newest() // 1000}


def supervisor_killed(family: Family) -> dict[str, Any]:
    """Prints the children's pids and dies: they must die as well."""
    for row, main in ((0, make), (1, take), (3, hand)):
        family.start(row, main)
    family.wait_for(lambda: family.tally("right") > 0)
    print(json.dumps({"pids": list(family.pids.values())}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


SCENARIOS = (killed_in_mid_write, producer_killed, reader_killed, workers_killed, restarted_server, supervisor_killed)


def main() -> None:
    scenario = {one.__name__: one for one in SCENARIOS}[sys.argv[1]]
    family = Family(Path(sys.argv[2]))
    report = scenario(family)
    report["exits"] = family.stop()
    report["files"] = sorted(os.listdir(family.directory))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
