"""The faults, with the RPC servers of conductor and sequencers, and programs that sleep."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rollup_node.tools.devnet.engine.journal import FILE_NAME
from rollup_node.tools.devnet.faults import injector as injectors
from rollup_node.tools.devnet.faults.injector import FaultInjector, NoRecovery
from rollup_node.tools.devnet.serving.jsonrpc_server import JsonRpc, application
from tests.support.engine.sequencer_servers import SequencerServer
from tests.support.p2p.blocks import block
from tests.support.servers.http_listener import listening

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
FAULTS = 8


class Conductor:
    """A conductor that commits a block whenever it is asked, unless it is `stuck`; another sequencer leads after each
    failover."""

    def __init__(self) -> None:
        self.leader, self.last = "sequencer", 0
        self.stuck = False
        self.calls: list[str] = []

    def overview(self, first: int) -> dict[str, Any]:
        self.last += not self.stuck
        return {"leader": self.leader, "last": self.last}

    def fail_over(self) -> None:
        self.leader = "sequencer-2" if self.leader == "sequencer" else "sequencer"

    def application(self) -> Any:
        def record(name: str) -> Callable[[], None]:
            return lambda: self.calls.append(name)

        def transfer() -> None:
            self.calls.append("transfer")
            self.fail_over()

        methods = {f"conductor_{name}": record(name) for name in ("pause", "resume")}
        methods["conductor_transferLeader"] = transfer
        paths = {f"/{name}": JsonRpc(methods) for name in ("sequencer", "sequencer-2")}
        return application(JsonRpc({"dev_conductor": self.overview}), others=paths)


class SleepingPrograms:
    """Nodes of one process each; `stopped_programs` are those that were killed and started again."""

    def __init__(self, root: Path, conductor: Conductor) -> None:
        self.nodes: dict[str, str] = {}
        self.stopped_programs: list[str] = []
        self._root, self._conductor = root, conductor
        self.process = subprocess.Popen(SLEEP)
        self.states: set[str] = set()

    @contextmanager
    def stopped(self, program: str) -> Iterator[None]:
        self.stopped_programs.append(program)
        if program.endswith(" node"):
            self._conductor.fail_over()
        yield

    def node_pids(self, name: str) -> dict[str, int]:
        if self.process.poll() is not None:
            self.process = subprocess.Popen(SLEEP)
        return {role: self.process.pid for role in ("supervisor", "engine", "p2p")}

    def engine_data(self, name: str) -> Path:
        path = self._root / name
        path.mkdir(exist_ok=True)
        (path / FILE_NAME).write_bytes(b'{"executionPayload"}\n' * 9)
        return path

    def state(self) -> str:
        """The state of the process, `T` for a paused one."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


Scenario = Callable[[FaultInjector, Conductor, SleepingPrograms, SequencerServer], Awaitable[None]]


def run(root: Path, scenario: Scenario) -> list[str]:
    """Runs a scenario with an injector; the lines it showed."""
    lines: list[str] = []

    async def bounded() -> None:
        conductor, node = Conductor(), SequencerServer(block())
        programs = SleepingPrograms(root, conductor)
        async with asyncio.timeout(30), listening(conductor.application()) as (url,), node.serving():
            programs.nodes = {"sequencer": node.url, "sequencer-2": node.url}
            injector = FaultInjector(programs, url, 0.02, random.Random(1), lines.append)
            try:
                await scenario(injector, conductor, programs, node)
            finally:
                await injector.close()
                programs.process.kill()
                programs.process.wait()

    asyncio.run(bounded())
    return lines


def test_the_faults_come_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injectors, "POLL_SECONDS", 0.005)

    async def scenario(
        injector: FaultInjector, conductor: Conductor, programs: SleepingPrograms, node: SequencerServer
    ) -> None:
        node.active = True
        running = asyncio.create_task(injector.run())
        while sum(injector.counts.values()) < FAULTS and not running.done():
            if programs.state() == "T":
                programs.states.add("T")
                conductor.fail_over()
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert set(injector.counts.values()) == {1} and len(injector.counts) == FAULTS
        assert conductor.calls == ["pause", "resume", "transfer"]
        assert node.calls == ["stop", "start"] and node.active
        killed = [program.split(" ", 1)[1] for program in programs.stopped_programs]
        assert killed == ["engine", "node", "engine"], "the execution engine twice, the node once"
        journals = [path.read_bytes() for path in tmp_path.glob(f"*/{FILE_NAME}")]
        assert [6 <= journal.count(b"\n") <= 8 for journal in journals] == [True]
        assert programs.states == {"T"} and programs.state() != "T", "it was paused and goes on"

    lines = run(tmp_path, scenario)
    assert len(lines) == FAULTS and lines[0] == "chaos: stop and start of the sequencer; leader sequencer"


def test_a_chain_that_does_not_go_on_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injectors, "RECOVERY_SECONDS", 0.05)

    async def scenario(
        injector: FaultInjector, conductor: Conductor, programs: SleepingPrograms, node: SequencerServer
    ) -> None:
        conductor.stuck = True
        with pytest.raises(NoRecovery, match=r"new blocks after: the start; the conductor says .*'last': 0"):
            await injector.run()

    assert run(tmp_path, scenario) == []


def test_a_paused_node_goes_on_when_the_run_ends(tmp_path: Path) -> None:
    async def scenario(
        injector: FaultInjector, conductor: Conductor, programs: SleepingPrograms, node: SequencerServer
    ) -> None:
        pausing = asyncio.create_task(injector._pause_node("sequencer"))
        while programs.state() != "T":
            await asyncio.sleep(0.01)
        pausing.cancel()
        await asyncio.gather(pausing, return_exceptions=True)
        while programs.state() == "T":
            await asyncio.sleep(0.01)
        programs.process.send_signal(signal.SIGTERM)
        assert programs.process.wait(10) == -signal.SIGTERM

    run(tmp_path, scenario)
