"""The p2p process under attack by peers: its memory, descriptors and log stay within the bounds of docs/security.md,
and the blocks of an honest peer arrive meanwhile."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from tests.support.leftovers import Leftovers
from tests.support.p2p_attackers import ATTACKS, UNDER_WAY
from tests.support.p2p_blocks import CHAIN_ID
from tests.support.p2p_nodes import KEY, P2pNode, chain_of_now, chain_since, now_block, run_scenario
from tests.support.p2p_process import DISCOVERY_LINE
from tests.support.process_memory import open_descriptors, peak_memory
from tests.support.programs import Program
from tests.support.stopwatch import Stopwatch

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 250 << 20
DESCRIPTORS = 400
LOG_BYTES_PER_HOUR = 1_000_000
BLOCK_SECONDS = 5.0
REQUEST_SECONDS = 10.0
ATTACK_SECONDS = 5.0


class P2pProcess(Program):
    """The p2p process as its peers and the kernel see it."""

    def __init__(self, leftovers: Leftovers, genesis_time: int, **options: Any) -> None:
        words = (str(leftovers.folder), str(genesis_time), json.dumps(options))
        super().__init__(leftovers, "tests.support.p2p_process", *words, PYTHONPATH=str(ROOT))

    @property
    def address(self) -> str:
        """Its multiaddr."""
        return self.wait_for_line("address ").removeprefix("address ")

    @property
    def discovery_port(self) -> str:
        """The port of its discovery socket."""
        return self.wait_for_line(DISCOVERY_LINE).removeprefix(DISCOVERY_LINE)

    @property
    def peak_memory(self) -> int:
        """The largest resident size so far, in bytes."""
        return peak_memory(self.pid)

    @property
    def descriptors(self) -> int:
        """How many are open."""
        return open_descriptors(self.pid)

    def has_block(self, number: int) -> bool:
        """Whether the engine process has received the block."""
        return f"block {number}\n" in self.out


@pytest.fixture
def genesis_time() -> int:
    """The time of the test chain's genesis block."""
    return chain_of_now().genesis.l2_time


@pytest.fixture
def process(leftovers: Leftovers, genesis_time: int) -> Iterator[P2pProcess]:
    """The p2p process with its default limits."""
    with P2pProcess(leftovers, genesis_time, no_discovery=False) as running:
        yield running
        assert running.stop().code == 0


class HonestPeer:
    """A peer that publishes a block every second, and the longest time that one took to arrive, in seconds without
    those for which other programs on a busy machine kept the p2p process, or the peer itself, from running."""

    def __init__(self, node: P2pNode, process: P2pProcess) -> None:
        self._node, self._process = node, process
        self._number = 0
        self.slowest = 0.0

    async def publish(self) -> None:
        """Publishes a block and waits until it has arrived."""
        self._number += 1
        started, stopwatch = time.monotonic(), Stopwatch(self._process.pid, os.getpid())
        assert await self._node.publish(now_block(self._number)) is None
        while not self._process.has_block(self._number):
            await asyncio.sleep(0.01)
        self.slowest = max(self.slowest, stopwatch.seconds)
        await asyncio.sleep(max(0.0, 0.5 - (time.monotonic() - started)))

    async def request_block(self, number: int) -> bytes:
        """The response to a request for a block, by the sync protocol."""
        host = self._node.stage.host
        _, stream = await host.open_stream(host.peers()[0], payload_by_number.protocols(CHAIN_ID))
        await stream.write(payload_by_number.encode_request(number))
        stream.close()
        return await stream.read_all(payload_by_number.MAX_RESPONSE)


@contextlib.asynccontextmanager
async def honest_peer(process: P2pProcess, genesis_time: int, folder: Path) -> AsyncIterator[HonestPeer]:
    """An honest peer whose first block has arrived."""

    options = {"sequencer_key": KEY, "static": (process.address,)}
    async with P2pNode(1, chain_since(genesis_time), folder, **options).running() as node:
        await node.wait_for_mesh()
        peer = HonestPeer(node, process)
        await peer.publish()
        yield peer


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack(process: P2pProcess, leftovers: Leftovers, genesis_time: int, attack: str, tmp_path: Path) -> None:
    words = (attack, process.address, process.discovery_port)

    async def scenario() -> None:
        async with honest_peer(process, genesis_time, tmp_path) as honest:
            log, descriptors = len(process.err), 0
            with Program(leftovers, "tests.support.p2p_attackers", *words, PYTHONPATH=str(ROOT)) as attacker:
                begun: float | None = None
                honest.slowest = 0.0
                # The measured time begins when the attack is under way; blocks are published from the beginning.
                while begun is None or time.monotonic() < begun + ATTACK_SECONDS:
                    await honest.publish()
                    descriptors = max(descriptors, process.descriptors)
                    if begun is None and UNDER_WAY in attacker.out:
                        begun = time.monotonic()
                    assert attacker.running, attacker.err
                written = len(process.err) - log
        figures = (
            f"{attack}: peak {process.peak_memory >> 20} MiB, {descriptors} descriptors, {written} bytes of log,"
            f" slowest block {honest.slowest:.2f} s"
        )
        print(figures)
        assert process.running, figures
        assert process.peak_memory < MEMORY, figures
        assert descriptors < DESCRIPTORS, figures
        assert written < LOG_BYTES_PER_HOUR / 60, f"{figures}\n{process.err[-2000:]}"
        assert honest.slowest < BLOCK_SECONDS, figures

    run_scenario(scenario, 55.0)


def test_requests_of_an_honest_peer_are_served_among_many_of_others(
    process: P2pProcess, leftovers: Leftovers, genesis_time: int, tmp_path: Path
) -> None:
    """Sixty peers request as much as their own limits allow, four times what is served to all."""
    words = ("unread_blocks", process.address, process.discovery_port)

    async def scenario() -> None:
        async with honest_peer(process, genesis_time, tmp_path) as honest:
            with Program(leftovers, "tests.support.p2p_attackers", *words, PYTHONPATH=str(ROOT)) as attacker:
                while UNDER_WAY not in attacker.out:
                    await asyncio.sleep(0.05)
                for number in (1, 2):
                    stopwatch = Stopwatch(process.pid, os.getpid())
                    response = await honest.request_block(number)
                    seconds = stopwatch.seconds
                    print(f"request {number}: code {response[0]} after {seconds:.2f} s")
                    assert response[0] == ResultCode.OK, f"code {response[0]} after {seconds:.2f} s"
                    assert seconds < REQUEST_SECONDS

    run_scenario(scenario, 55.0)
