"""The p2p process and an honest peer, which take the attacks of a test file one after another.

The bounds are those of docs/security.md."""

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from rollup_node.stages.p2p.reqresp import payload_by_number
from tests.support.p2p.blocks import CHAIN_ID
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, chain_since, now_block
from tests.support.p2p.process import DISCOVERY_LINE, NUMBER
from tests.support.processes.attacked_stage import MAX_LOG_BYTES_AN_HOUR, Attacked
from tests.support.processes.attackers import Attackers
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import open_descriptors, peak_memory, reset_peak_memory
from tests.support.processes.programs import Program
from tests.support.timing.conditions import until
from tests.support.timing.stopwatch import Stopwatch

MEMORY = 250 << 20
DESCRIPTORS = 400
BLOCK_SECONDS = 5.0

BEGIN_SECONDS = 40.0


class P2pProcess(Program):
    """The p2p process as its peers and the kernel see it."""

    def __init__(self, leftovers: Leftovers, genesis_time: int, **options: Any) -> None:
        words = (str(leftovers.folder), str(genesis_time), json.dumps(options))
        super().__init__(leftovers, "tests.support.p2p.process", *words)
        self.peak_descriptors = 0

    @property
    def address(self) -> str:
        """Its multiaddr."""
        return self.wait_for_line("address ").removeprefix("address ")

    @property
    def discovery_port(self) -> str:
        """The port of its discovery socket."""
        return self.wait_for_line(DISCOVERY_LINE).removeprefix(DISCOVERY_LINE)

    @contextlib.asynccontextmanager
    async def counting_descriptors(self) -> AsyncIterator[None]:
        """Keep `peak_descriptors` meanwhile."""

        async def count() -> None:
            while self.running:
                self.peak_descriptors = max(self.peak_descriptors, open_descriptors(self.pid))
                await asyncio.sleep(0.03)

        counting = asyncio.create_task(count())
        try:
            yield
        finally:
            counting.cancel()

    def has_block(self, number: int) -> bool:
        """Whether the engine process has received the block."""
        return f"block {number}\n" in self.out


class HonestPeer:
    """A peer that publishes up to four blocks a second, and the longest time that one took to arrive, in seconds
    without those for which other programs on a busy machine kept the p2p process, or the peer itself, from running."""

    def __init__(self, node: P2pNode, process: P2pProcess) -> None:
        self._node, self._process = node, process
        self._number = 0
        self.slowest = 0.0

    async def publish(self) -> None:
        """Publish a block and waits until it has arrived."""
        self._number += 1
        started, stopwatch = time.monotonic(), Stopwatch(self._process.pid, os.getpid())
        assert await self._node.publish(now_block(self._number)) is None
        while not self._process.has_block(self._number):
            await asyncio.sleep(0.01)
        self.slowest = max(self.slowest, stopwatch.seconds)
        await asyncio.sleep(max(0.0, 0.25 - (time.monotonic() - started)))

    async def request_block(self, number: int) -> bytes:
        """Return the response to a request for a block, by the sync protocol."""
        host = self._node.stage.host
        _, stream = await host.open_stream(host.peers()[0], payload_by_number.protocols(CHAIN_ID))
        await stream.write(payload_by_number.encode_request(number))
        stream.close()
        return await stream.read_all(payload_by_number.MAX_RESPONSE)


@contextlib.asynccontextmanager
async def attacking(attackers: Attackers, attack: str, process: P2pProcess) -> AsyncIterator[None]:
    """Attacks the process meanwhile; at the end the attack is killed, and the process has closed its connections."""
    idle = open_descriptors(process.pid)
    attackers.begin(attack, process.address, process.discovery_port)
    try:
        yield
    finally:
        attackers.end()
        await until(lambda: attackers.has_stopped)
    await until(lambda: open_descriptors(process.pid) <= idle)


Scenario = Callable[[P2pProcess, HonestPeer], Awaitable[None]]


class AttackedP2p(Attacked[tuple[P2pProcess, HonestPeer]]):
    """The process under attack with its default limits, and an honest peer that is connected."""

    def __init__(self, leftovers: Leftovers, folder: Path) -> None:
        super().__init__()
        self._leftovers, self._folder = leftovers, folder

    async def start(self) -> tuple[P2pProcess, HonestPeer]:
        # A process that was killed leaves its sockets.
        shutil.rmtree(self._leftovers.folder / str(NUMBER), ignore_errors=True)
        genesis_time = chain_of_now().genesis.l2_time
        process = P2pProcess(self._leftovers, genesis_time, no_discovery=False)
        self.stack.enter_context(process)
        options = {"sequencer_key": KEY, "static": (process.address,)}
        node = P2pNode(1, chain_since(genesis_time), self._folder, **options)
        await self.stack.enter_async_context(node.running())
        await node.wait_for_mesh()
        honest = HonestPeer(node, process)
        await honest.publish()
        return process, honest

    async def stop(self, running: tuple[P2pProcess, HonestPeer]) -> None:
        assert running[0].stop().code == 0


def attack_within_bounds(
    attacked: AttackedP2p, attackers: Attackers, attack: str, meanwhile: Scenario | None = None
) -> None:
    """Run an attack, during which the process must keep to its bounds and the honest peer's blocks must arrive.

    `meanwhile` runs when the attack is under way."""

    async def scenario(running: tuple[P2pProcess, HonestPeer]) -> None:
        process, honest = running
        log = len(process.err)
        reset_peak_memory(process.pid)
        process.peak_descriptors, honest.slowest = 0, 0.0
        async with attacking(attackers, attack, process), process.counting_descriptors():
            is_published, deadline = False, time.monotonic() + BEGIN_SECONDS
            while not is_published:
                assert time.monotonic() < deadline, f"{attack} is not under way\n{process.err[log:][-2000:]}"
                is_published = attackers.is_under_way
                await honest.publish()
            if meanwhile is not None:
                await meanwhile(process, honest)
        written = len(process.err) - log
        figures = (
            f"{attack}: peak {peak_memory(process.pid) >> 20} MiB, {process.peak_descriptors} descriptors,"
            f" {written} bytes of log, slowest block {honest.slowest:.2f} s"
        )
        print(figures)
        assert process.running, figures
        assert peak_memory(process.pid) < MEMORY, figures
        assert process.peak_descriptors < DESCRIPTORS, figures
        assert written < MAX_LOG_BYTES_AN_HOUR / 60, f"{figures}\n{process.err[-2000:]}"
        assert honest.slowest < BLOCK_SECONDS, figures

    attacked.run(scenario)
