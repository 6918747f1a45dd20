"""The server process of a race, on free ports: L1, Beacon API, an engine for each chain that is followed.

With --engine the last is a relay to a real engine. It says as JSON, a line each, where it listens, when the first
attributes come, and what it counted when the course's last block became safe. It ends with its standard input, with
--complete after a line with all requests.

    python -m rollup_node.tools.bench.race.server FOLDER --latency 50"""

import argparse
import asyncio
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from rollup_node.tools.bench.race.call_clock import CallClock
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.engine import Engine
from rollup_node.tools.bench.race.engine_relay import EngineRelay, RelayConnection
from rollup_node.tools.bench.race.http_server import Answer, HttpConnection
from rollup_node.tools.bench.race.l1_server import BeaconApi, L1Endpoint, RpcMethods

HOST = "127.0.0.1"


class Listening(msgspec.Struct, tag=True):
    """The URLs of the servers, with an engine for each chain that is followed."""

    l1: str
    beacon: str
    engines: list[str]

    @property
    def engine(self) -> str:
        """The URL of the first chain's engine."""
        return self.engines[0]


class FirstAttributes(msgspec.Struct, tag=True):
    """The first attributes came; times are monotonic seconds, `first_l1_request` that of the first request to L1."""

    time: float
    first_l1_request: float


class LastSafe(msgspec.Struct, tag=True):
    """The last block of each followed chain became safe, the last at `time`: what was counted until then.

    Since the first attributes, `cpu_ms` is this process's own CPU, `engine_busy_percent` the share of the time in which
    an engine call was open, `engine_gaps_ms` the time from an answer of the engine to the next call, at 50 and 99 % of
    the calls."""

    time: float
    cpu_ms: float
    l1_requests: int
    l1_bytes: int
    l1_calls: dict[str, int]
    l1_sizes: dict[str, int]
    beacon_requests: int
    beacon_bytes: int
    beacon_calls: dict[str, int]
    engine_calls: dict[str, int]
    engine_busy_percent: float
    engine_gaps_ms: list[float]


class NewHead(msgspec.Struct, tag=True):
    """L1 has another head, and what was asked of it before."""

    number: int
    time: float
    l1_requests: int
    l1_bytes: int
    beacon_requests: int


class Mismatch(msgspec.Struct, tag=True):
    """Attributes came that are not the course's; `text` says what differs."""

    text: str


class Served(msgspec.Struct, tag=True):
    """What L1 and the Beacon API were asked for until the end, by method and route."""

    l1_calls: dict[str, int]
    beacon_calls: dict[str, int]


Message = Listening | FirstAttributes | NewHead | Mismatch | LastSafe | Served


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the prepared course")
    parser.add_argument("--latency", type=float, default=0.0, help="of L1 and Beacon API, in milliseconds")
    parser.add_argument("--fresh", type=int, default=0, help="L1 blocks that come one by one after the first request")
    parser.add_argument("--interval", type=float, default=12.0, help="seconds between two of them")
    parser.add_argument("--engine", help="the URL of a real engine, in place of the prepared answers")
    parser.add_argument("--chains", type=int, default=1, help="how many chains of the course are followed")
    parser.add_argument("--complete", action="store_true", help="the engine has all L2 blocks, and L1 is final")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    asyncio.run(_serve(CourseFiles(args.folder), args))
    return 0


async def _serve(course: CourseFiles, namespace: argparse.Namespace) -> None:
    race, latency = _Race(course, namespace), namespace.latency / 1000
    connections: list[Callable[[], asyncio.Protocol]] = [
        partial(HttpConnection, race.l1, latency),
        partial(HttpConnection, race.beacon.respond, latency),
        *race.engine_connections(),
    ]
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(connection, HOST, 0) for connection in connections]
    # What is loaded stays: collections would only walk over it.
    gc.collect()
    gc.freeze()
    l1, beacon, *engines = [f"http://{HOST}:{server.sockets[0].getsockname()[1]}" for server in servers]
    _say(Listening(l1, beacon, engines))
    await asyncio.to_thread(sys.stdin.buffer.read)
    for server in servers:
        server.close()
    if namespace.complete:
        _say(race.served())


class _Race:
    def __init__(self, course: CourseFiles, namespace: argparse.Namespace) -> None:
        self._endpoint, self._interval = L1Endpoint(course, namespace.fresh, namespace.complete), namespace.interval
        self._l1 = self._endpoint.rpc
        self.beacon = BeaconApi(course)
        self._clock = CallClock()
        watch = self._first_attributes, lambda text: _say(Mismatch(text)), self._last_safe
        followed = [course, *course.further][: namespace.chains]
        self._engines: list[EngineRelay] | list[RpcMethods] = (
            [EngineRelay(course, namespace.engine, self._clock, *watch)]
            if namespace.engine
            else [Engine(chain, *watch, namespace.complete).rpc for chain in followed]
        )
        self._begun, self._unsafe = False, len(self._engines)
        self._first_request = self._cpu = 0.0

    def l1(self, target: bytes, head: bytes, body: bytes) -> Answer:
        """Answer a request to L1."""
        if not self._first_request:
            self._first_request = time.monotonic()
            self._schedule_head()
        return self._l1.respond(target, head, body)

    def engine_connections(self) -> Iterator[Callable[[], asyncio.Protocol]]:
        """Return what makes a new connection to each engine."""
        for engine in self._engines:
            if isinstance(engine, EngineRelay):
                yield partial(RelayConnection, engine)
            else:
                yield partial(HttpConnection, partial(self._respond, engine), 0.0)

    def _respond(self, engine: RpcMethods, target: bytes, head: bytes, body: bytes) -> Answer:
        self._clock.opened()
        answer = engine.respond(target, head, body)
        self._clock.closed()
        return answer

    def _schedule_head(self) -> None:
        if self._endpoint.fresh:
            asyncio.get_running_loop().call_later(self._interval, self._new_head)

    def _new_head(self) -> None:
        self._endpoint.advance()
        counts = self._l1.requests, self._l1.sizes.total(), self.beacon.requests
        _say(NewHead(self._endpoint.head, time.monotonic(), *counts))
        self._schedule_head()

    def _first_attributes(self) -> None:
        if self._begun:
            return
        self._begun = True
        self._cpu = time.process_time()
        self._clock.start()
        _say(FirstAttributes(time.monotonic(), self._first_request))

    def served(self) -> Served:
        """Return what was asked for so far."""
        return Served(dict(self._l1.calls), dict(self.beacon.calls))

    def _last_safe(self) -> None:
        self._unsafe -= 1
        if self._unsafe:
            return
        _say(
            LastSafe(
                time=time.monotonic(),
                cpu_ms=1000 * (time.process_time() - self._cpu),
                l1_requests=self._l1.requests,
                l1_bytes=self._l1.sizes.total(),
                l1_calls=dict(self._l1.calls),
                l1_sizes=dict(self._l1.sizes),
                beacon_requests=self.beacon.requests,
                beacon_bytes=self.beacon.sizes.total(),
                beacon_calls=dict(self.beacon.calls),
                engine_calls=dict(sum((engine.calls for engine in self._engines), Counter())),
                engine_busy_percent=self._clock.busy_percent(),
                engine_gaps_ms=self._clock.gaps_ms(),
            )
        )


def _say(message: Message) -> None:
    sys.stdout.write(msgspec.json.encode(message).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
