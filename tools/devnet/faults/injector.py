"""The faults of a run.

The leading sequencer is stopped and started, killed in parts and as a whole, or loses the lead in the middle of a
block, and its engine is killed."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.devnet.engine.backend import drop_last_blocks
from rollup_node.tools.devnet.faults.events import Programs

RECOVERY_SECONDS = 60.0
RECOVERY_BLOCKS = 2
POLL_SECONDS = 0.1
CALL_SECONDS = 5.0
MAX_LOST_BLOCKS = 3

Fault = Callable[[str], Awaitable[None]]
"""A fault of the leading sequencer, which is named."""


class NoRecovery(RuntimeError):
    """No blocks are committed after a fault; the text names it."""


class FaultInjector:
    """Injects the faults in turn, each once the chain has advanced after the one before.

    `counts` are those that it has advanced after.

    `conductor` is its URL, `every` the mean seconds between two faults, `say` shows a line to the user."""

    def __init__(
        self, network: Programs, conductor: str, every: float, chance: random.Random, say: Callable[[str], None]
    ) -> None:
        self._network, self._conductor, self._every, self._chance, self._say = network, conductor, every, chance, say
        self._clients: dict[str, JsonRpcClient] = {}
        self._faults: tuple[tuple[str, Fault], ...] = (
            ("stop and start of the sequencer", self._stop_and_start),
            ("transfer of the lead", self._transfer),
            ("kill of the engine process", lambda leader: self._kill_process(leader, "engine")),
            ("restart of the execution engine", self._restart_engine),
            ("kill of the node", self._kill_node),
            ("kill of the p2p process", lambda leader: self._kill_process(leader, "p2p")),
            ("loss of the execution engine's last blocks", self._lose_blocks),
            ("pause of all processes of the node", self._pause_node),
        )
        self.counts: dict[str, int] = {name: 0 for name, _ in self._faults}

    async def run(self) -> None:
        """Inject faults until it is cancelled. Raises NoRecovery."""
        await self._advance("the start")
        turn = 0
        while True:
            # A random pause, so that each fault comes at any moment of a block.
            await asyncio.sleep(self._every * self._chance.uniform(0.5, 1.5))
            name, fault = self._faults[turn % len(self._faults)]
            turn += 1
            leader = (await self._overview())["leader"]
            self._say(f"chaos: {name}; leader {leader}")
            await fault(leader)
            await self._advance(name)
            self.counts[name] += 1

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.close()

    # --- faults ----------------------------------------------------------------------------------------------------

    async def _stop_and_start(self, leader: str) -> None:
        """As an operator does it, with the conductor paused. What fails is left to the conductor."""
        conductor, node = f"{self._conductor}/{leader}", self._network.nodes[leader]
        await self._call(conductor, "conductor_pause")
        try:
            with suppress(EndpointError, RpcFailure):
                head = await self._call(node, "admin_stopSequencer")
                await asyncio.sleep(self._chance.uniform(0.0, 1.5))
                await self._call(node, "admin_startSequencer", head)
        finally:
            await self._call(conductor, "conductor_resume")

    async def _transfer(self, leader: str) -> None:
        with suppress(RpcFailure):  # it may have lost the lead meanwhile
            await self._call(f"{self._conductor}/{leader}", "conductor_transferLeader")

    async def _kill_process(self, leader: str, role: str) -> None:
        pid = self._network.node_pids(leader).get(role)
        _signal([] if pid is None else [pid], signal.SIGKILL)

    async def _restart_engine(self, leader: str) -> None:
        with self._network.stopped(f"{leader} engine"):
            await asyncio.sleep(0)

    async def _lose_blocks(self, leader: str) -> None:
        with self._network.stopped(f"{leader} engine"):
            drop_last_blocks(self._network.engine_data(leader), self._chance.randint(1, MAX_LOST_BLOCKS))

    async def _pause_node(self, leader: str) -> None:
        """Pause a node until another one leads: it goes on as if it led still."""
        pids = list(self._network.node_pids(leader).values())
        try:
            _signal(pids, signal.SIGSTOP)
            await self._until(f"a failover while {leader} is paused", lambda value: value["leader"] != leader)
        finally:
            _signal(pids, signal.SIGCONT)

    async def _kill_node(self, leader: str) -> None:
        """Kill the supervisor, whose processes die with it, and start the node again once another one leads."""
        with self._network.stopped(f"{leader} node"):
            await self._until(f"a failover after the kill of {leader}", lambda value: value["leader"] != leader)

    # --- the conductor's view --------------------------------------------------------------------------------------

    async def _advance(self, after: str) -> None:
        wanted = (await self._overview())["last"] + RECOVERY_BLOCKS
        await self._until(f"new blocks after: {after}", lambda value: value["last"] >= wanted)

    async def _until(self, what: str, condition: Callable[[dict[str, Any]], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + RECOVERY_SECONDS
        while not condition(result := await self._overview()):
            if asyncio.get_running_loop().time() > deadline:
                raise NoRecovery(f"not within {RECOVERY_SECONDS:.0f} s: {what}; the conductor says {result}")
            await asyncio.sleep(POLL_SECONDS)

    async def _overview(self) -> dict[str, Any]:
        result: dict[str, Any] = await self._call(self._conductor, "dev_conductor", 0)
        return result

    async def _call(self, url: str, method: str, *params: Any) -> Any:
        client = self._clients.get(url)
        if client is None:
            client = self._clients[url] = JsonRpcClient(url, timeout=CALL_SECONDS)
        return await client.call(method, *params)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
