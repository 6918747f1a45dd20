"""A soak from the start of its network to its verdict."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.task import cancel_all
from rollup_node.tools.devnet import ports
from rollup_node.tools.devnet.child_programs import ProgramExited
from rollup_node.tools.devnet.files import NetworkFiles
from rollup_node.tools.devnet.network import NetworkPrograms
from rollup_node.tools.devnet.settings import SEQUENCER, DevnetSettings, parse
from rollup_node.tools.devnet.soak.family import adopt_orphans, listening, sockets_below, title
from rollup_node.tools.devnet.soak.lanes import L1, Disturbed, Done, Lane, l1_actions, node_actions
from rollup_node.tools.devnet.soak.programs import SoakPrograms, faults_of
from rollup_node.tools.devnet.soak.report import (
    MAX_PROBLEMS,
    ActionDone,
    Line,
    Minute,
    RunEnded,
    RunStarted,
)
from rollup_node.tools.devnet.soak.watch import Watch, commit_of_checkout, machine_text
from rollup_node.tools.devnet.status import compare_output_roots
from rollup_node.tools.devnet.traffic import Traffic
from rollup_node.tools.faults.scenario import Scenario

TICK_SECONDS = 1.0
SAMPLE_SECONDS = 10.0
MINUTE = 60.0
TRAFFIC_SECONDS = 2.0
FIRST_SAFE_SECONDS = 120.0
END_SECONDS = 240.0
"""How long the last actions and the heads of all nodes may take at the end."""

LEFT_SECONDS = 15.0
REORG_FACTOR = 8
"""A reorg of L1 comes this many times less often than an action on a node."""

BLOCK_TIMES = ("--l1-block-time", "4", "--l2-block-time", "2")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class SoakSettings:
    """A soak of `seconds` over `nodes` nodes, of which one is the sequencer.

    `pause` is the mean time between recovery and the next action on a node."""

    run: str
    seconds: float
    seed: int
    nodes: int
    pause: float
    scenarios: tuple[Scenario, ...]
    log_level: str = "info"

    def devnet(self) -> DevnetSettings:
        """Return the network; its engines keep their chains."""
        words = ["--nodes", str(self.nodes - 1), *BLOCK_TIMES, "--log-level", self.log_level]
        result = parse(words)
        return DevnetSettings(**{**vars(result), "keeps_engines": True})


class Soak:
    """A soak that runs; `write` gets each line of its report, `say` a text for the user."""

    def __init__(
        self,
        settings: SoakSettings,
        network: NetworkPrograms,
        write: Callable[[Line], None],
        say: Callable[[str], None],
    ) -> None:
        self._settings, self._network, self._write, self._say = settings, network, write, say
        self._began = time.monotonic()
        self._programs = SoakPrograms(network, settings.scenarios, settings.seed)
        self._watch = Watch(
            {node: network.files.log(node) for node in self._programs.nodes},
            self._programs.processes,
            lambda: network.children.pids().values(),
            self._problem,
        )
        self._problems: list[str] = []
        self._stop = asyncio.Event()
        self._ends = False
        self._tasks: list[asyncio.Task[None]] = []
        self._blocks, self._equal = 0, False

    @property
    def _elapsed(self) -> float:
        return round(time.monotonic() - self._began, 1)

    async def run(self) -> RunEnded:
        """Run it to its end, which a signal brings forward; a second one ends it without a comparison."""
        adopt_orphans()
        settings = self._settings
        commit, machine = commit_of_checkout(), machine_text()
        self._write(
            RunStarted(settings.run, time.time(), settings.seed, settings.nodes, commit, machine, settings.pause)
        )
        with self._signals():
            try:
                await self._programs.start_proxies()
                await self._network.start()
                self._network.children.on_restart = self._problem
                await self._follow()
            except (ProgramExited, EndpointError, RpcFailure, RuntimeError, TimeoutError) as error:
                self._problem(str(error) or type(error).__name__)
            except asyncio.CancelledError:
                self._problem("ended by a signal without a comparison")
            finally:
                self._ends = True
                await self._cancel()
                await self._programs.close()
                self._network.children.stop()
        await self._nothing_left()
        for node, watch in self._watch.nodes.items():
            for text in watch.problems(node):
                self._problem(text)
        trends = {node: watch.trend() for node, watch in self._watch.nodes.items()}
        problems = tuple(self._problems)
        ended = RunEnded(
            settings.run, self._elapsed, self._blocks, self._equal, round(self._watch.load, 1), trends, problems
        )
        self._write(ended)
        return ended

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def on_signal() -> None:
            if self._stop.is_set() and task is not None and not self._ends:
                task.cancel()
            self._stop.set()

        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    def _problem(self, text: str) -> None:
        self._say(f"PROBLEM: {text}")
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(f"{self._settings.run}, {self._elapsed:.0f} s: {text}")

    # --- the run ---------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        heads = asyncio.create_task(self._programs.follow_heads())
        self._tasks = [heads, asyncio.create_task(self._traffic())]
        await self._until_above(0, FIRST_SAFE_SECONDS)
        lanes = [asyncio.create_task(lane.run()) for lane in self._lanes()]
        self._tasks += lanes
        deadline = self._began + self._settings.seconds
        sampled, minute = time.monotonic(), time.monotonic()
        while not self._stop.is_set() and time.monotonic() < deadline:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._stop.wait()
            self._check()
            now = time.monotonic()
            if now >= sampled + SAMPLE_SECONDS:
                sampled = now
                await asyncio.to_thread(self._watch.sample)
            if now >= minute + MINUTE:
                minute = now
                self._end_minute()
        self._stop.set()
        self._say("waiting for the last actions")
        async with asyncio.timeout(END_SECONDS):
            await asyncio.gather(*lanes)
        await self._compare()

    def _lanes(self) -> list[Lane]:
        seed, pause, disturbed = self._settings.seed, self._settings.pause, Disturbed()
        actions = {
            node: node_actions(seed, node, faults_of(node, self._settings.scenarios), pause, joins=node != SEQUENCER)
            for node in self._programs.nodes
        } | {L1: l1_actions(seed, REORG_FACTOR * pause)}
        return [Lane(self._programs, node, item, disturbed, self._done, self._stop) for node, item in actions.items()]

    def _check(self) -> None:
        """Raise what ended a program or a task; ends the run after too many problems."""
        self._network.children.check()
        for task in self._tasks:
            if task.done():
                task.result()
        if len(self._problems) >= MAX_PROBLEMS:
            raise RuntimeError(f"{MAX_PROBLEMS} problems")

    def _done(self, done: Done) -> None:
        action = done.action
        began = self._elapsed - (asyncio.get_running_loop().time() - done.began)
        recovery = None if done.recovery is None else round(done.recovery, 2)
        line = ActionDone(
            self._settings.run,
            round(began, 1),
            done.node,
            action.kind,
            action.target,
            action.seconds,
            action.amount,
            recovery,
            done.problem,
        )
        self._write(line)
        after = "no recovery" if recovery is None else f"recovered after {recovery:.1f} s"
        heads = " ".join(str(self._programs.safe(node)) for node in self._programs.nodes)
        self._say(f"{self._elapsed:7.1f} s  {done.node}: {action.text}: {after}; safe heads {heads}")
        if done.problem:
            self._problem(f"{done.node}: {action.text}: {done.problem}")

    def _end_minute(self) -> None:
        minutes: Sequence[Minute] = self._watch.minute(self._settings.run, self._elapsed)
        for minute in minutes:
            self._write(minute)

    async def _traffic(self) -> None:
        l1, l2 = JsonRpcClient(self._network.l1), JsonRpcClient(self._network.engines[SEQUENCER][0])
        traffic = Traffic(l1, l2, lambda text: None)
        try:
            while True:
                await traffic.send_round()
                await asyncio.sleep(TRAFFIC_SECONDS)
        finally:
            await l1.close()
            await l2.close()

    # --- the end ---------------------------------------------------------------------------------------------------

    async def _until_above(self, number: int, seconds: float) -> None:
        """Wait until the safe heads of all nodes are above a block. Raises TimeoutError."""
        try:
            async with asyncio.timeout(seconds):
                while any((self._programs.safe(node) or 0) <= number for node in self._programs.nodes):
                    self._check()
                    await asyncio.sleep(TICK_SECONDS)
        except TimeoutError:
            heads: Mapping[str, int | None] = self._programs.heads
            raise TimeoutError(f"not all safe heads are above {number} within {seconds:.0f} s: {heads}") from None

    async def _compare(self) -> None:
        """Compare the output roots of all nodes for every safe block."""
        highest = max(self._programs.safe(node) or 0 for node in self._programs.nodes)
        await self._until_above(highest, END_SECONDS)
        last = min(self._programs.safe(node) or 0 for node in self._programs.nodes)
        self._say(f"comparing the output roots of blocks 0 to {last}")
        clients = {node: JsonRpcClient(url) for node, url in self._network.nodes.items()}
        try:
            result = await compare_output_roots(clients, last)
        finally:
            for client in clients.values():
                await client.close()
        self._blocks, self._equal = result.blocks, result.equal
        if not result.equal:
            self._problem(f"the output roots of block {result.first_difference} differ")

    async def _cancel(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_all(tasks)

    async def _nothing_left(self) -> None:
        """Note processes, sockets and shared memory that are there after the end, and kill such processes."""
        deadline = time.monotonic() + LEFT_SECONDS
        while (left := self._watch.left()) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        for pid in left:
            self._problem(f"process {pid} ({title(pid)}) is left behind")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in sockets_below(self._network.files.root):
            self._problem(f"socket {path} is left behind")
        for port in listening(self._network.reserved_ports()):
            self._problem(f"port {port} is still listened at")
        for path in self._watch.left_files():
            self._problem(f"{path} is left behind")


async def soak(
    settings: SoakSettings, root: Path, write: Callable[[Line], None], say: Callable[[str], None]
) -> RunEnded:
    """Run a soak with its files in `root`. Raises PortInUse."""
    devnet = settings.devnet()
    with ports.reserved(devnet.base_port, devnet.nodes) as reserved:
        return await Soak(settings, NetworkPrograms(devnet, NetworkFiles(root), reserved), write, say).run()
