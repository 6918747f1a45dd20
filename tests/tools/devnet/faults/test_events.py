"""What scenarios let happen once, on programs that record it."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.http.jsonrpc import RpcFailure
from rollup_node.tools.devnet.faults import events
from rollup_node.tools.devnet.faults.clock import OwnClock
from rollup_node.tools.devnet.faults.disk import SmallDisk
from rollup_node.tools.devnet.faults.events import EventCauses, NoEvent
from rollup_node.tools.faults.scenario import Event

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


class Network:
    """An L1 whose block N has the timestamp N, with a deposit in `deposits`; `calls` are those that change it."""

    l1 = "l1"

    def __init__(self, folder: Path) -> None:
        self.disk: SmallDisk | None = None
        self.clock: OwnClock | None = None
        self.fork_time: int | None = None
        self.head, self.deposits = 50, {10}
        self.pids: dict[str, int] = {}
        self.calls: list[tuple[Any, ...]] = []
        self._folder = folder

    @contextmanager
    def stopped(self, program: str) -> Iterator[None]:
        self.calls.append(("stopped", program))
        yield
        self.calls.append(("started", program))

    def node_pids(self, name: str) -> dict[str, int]:
        if not self.pids:
            raise FileNotFoundError(name)
        return self.pids

    def engine_data(self, name: str) -> Path:
        return self._folder / name

    async def call(self, url: str, method: str, *params: Any) -> Any:
        if method == "eth_blockNumber":
            self.head += 10
            return hex(self.head)
        if method == "eth_getLogs":
            first, last = (int(params[0][name], 16) for name in ("fromBlock", "toBlock"))
            return [{}] if any(first <= number <= last for number in self.deposits) else []
        if method == "eth_getBlockByNumber":
            return {"timestamp": params[0]}
        self.calls.append((method, *params))
        return None

    def cause(self, event: Event) -> None:
        asyncio.run(EventCauses(self, "verifier", self.call).cause(event))


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.0)
    return Network(tmp_path)


def test_shallow_reorgs_at_once_and_deep_ones_once_l1_is_long_enough(network: Network) -> None:
    network.cause(Event(reorg=4))
    assert network.head == 50
    network.cause(Event(reorg=64))
    network.cause(Event(back=True))
    assert network.head == 70 and network.calls == [("dev_reorg", 4), ("dev_reorg", 64), ("dev_switchBack",)]


def test_a_deposit_and_a_fork_are_waited_for(network: Network) -> None:
    network.deposits = {95}
    network.cause(Event(reorg=64))
    assert network.head == 100
    network.fork_time = 160
    network.deposits = {150}
    network.cause(Event(reorg=64, across=True))
    assert network.head == 160 and network.calls == [("dev_reorg", 64)] * 2


def test_what_follows_a_deep_reorg_waits_for_it(network: Network) -> None:
    wanted = [Event(reorg=2), Event(reorg=64, after=0.1), Event(back=True), Event(reorg=3)]
    asyncio.run(EventCauses(network, "verifier", network.call).cause_all(wanted))
    assert network.calls == [("dev_reorg", 2), ("dev_reorg", 64), ("dev_switchBack",), ("dev_reorg", 3)]


def test_an_event_that_is_refused(network: Network) -> None:
    async def refuse(url: str, method: str, *params: Any) -> Any:
        raise RpcFailure(-32602, "there was no reorg")

    with pytest.raises(NoEvent, match=r"an event is refused: .*there was no reorg"):
        asyncio.run(EventCauses(network, "verifier", refuse).cause_all([Event(back=True)]))
    asyncio.run(EventCauses(network, "verifier", refuse).cause_all([]))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Event(reorg=64, across=True), "no reorg of 64 blocks: no fork activates among them"),
        (Event(fill=True), "the network has no small disk"),
        (Event(clock=5), "the network has no clock of its own"),
    ],
)
def test_what_cannot_happen(network: Network, monkeypatch: pytest.MonkeyPatch, event: Event, reason: str) -> None:
    monkeypatch.setattr(events, "WAIT_SECONDS", 0.0)
    network.head, network.deposits = 100, {90}
    with pytest.raises(NoEvent, match=reason):
        network.cause(event)
    assert network.calls == []


def test_processes_are_killed_and_paused(network: Network) -> None:
    network.cause(Event(kill="l1"))  # of a node that is starting
    with subprocess.Popen(SLEEP) as killed, subprocess.Popen(SLEEP) as paused:
        network.pids = {"l1": killed.pid, "rpc": paused.pid}
        network.cause(Event(kill="l1"))
        assert killed.wait(10) == -signal.SIGKILL
        network.cause(Event(stop="rpc", seconds=0.05))
        assert paused.poll() is None
        paused.kill()
    network.cause(Event(kill="blobs"))


def test_restarts(network: Network) -> None:
    network.cause(Event(restart="node", seconds=0.0))
    assert network.calls == [("stopped", "verifier node"), ("started", "verifier node")]


def test_a_full_disk_and_another_clock_end_with_the_event(network: Network, tmp_path: Path) -> None:
    filled: list[str] = []

    class Disk(SmallDisk):
        def fill(self, pids: Any) -> None:
            filled.append("full")

        def free(self, pids: Any) -> None:
            filled.append("free")

    network.disk, network.clock = Disk(tmp_path, False), OwnClock(Path("/lib/x"), tmp_path / "clock.txt")
    network.cause(Event(fill=True, seconds=0.0))
    assert filled == ["full", "free"]

    async def during() -> str:
        causes = EventCauses(network, "verifier", network.call)
        task = asyncio.create_task(causes.cause(Event(clock=-300, seconds=0.2)))
        await asyncio.sleep(0.05)
        found = (tmp_path / "clock.txt").read_text()
        await task
        return found

    assert asyncio.run(during()) == "-300s\n" and (tmp_path / "clock.txt").read_text() == "+0s\n"
