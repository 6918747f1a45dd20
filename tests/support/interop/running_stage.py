"""The interop process over a served world, in one event loop: it can be stopped and started again at any time."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.interop.config import ChainEngine, InteropProcessConfig
from rollup_node.stages.interop.process.stage import RUNNING, InteropStage
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import ChainVerdict, Verdicts
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.interop.served_world import ServedChain, ServedL1, ServedWorld, served_engines
from tests.support.interop.values import GENESIS_TIME, dependency_set, member
from tests.support.interop.world import truth
from tests.support.processes.stage_runner import driven
from tests.support.timing.conditions import until

TWO = dependency_set(member(1), member(2, block_time=2), activation=GENESIS_TIME + 2, window=5)
THREE = dependency_set(member(1), member(2), member(3, block_time=2), activation=GENESIS_TIME, window=8)
LATER = dependency_set(
    member(1), member(2, genesis_time=GENESIS_TIME + 9), member(3, block_time=2), activation=GENESIS_TIME, window=8
)
"""As THREE, with a chain that begins after the others."""
SECRET = b"\x42" * 32


class Node:
    """A supernode of one world: `store` is the file, `first` the time of the first round, after what is safe before."""

    def __init__(self, world: ServedWorld, store: Path, depth: int) -> None:
        self.world, self.config, self.store, self.depth = world, world.config, store, depth
        self.l1 = ServedL1(self.world)
        self.chains = {chain_id: ServedChain(world, chain_id) for chain_id in world.config.chains}
        self.meter = Meter("interop")
        self.first = 0
        self.clock: Callable[[], float] = time.monotonic
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def verdicts(self) -> Verdicts:
        """What the first chain was told last."""
        return next(iter(self.chains.values())).verdicts[-1]

    def verdict(self, chain_id: int) -> ChainVerdict:
        return self.verdicts.chains[chain_id]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the process says of itself."""
        return self.stage.problems

    def follow(self, *chain_ids: int) -> None:
        """Let chains read L1, all of them without an argument."""
        for chain_id in chain_ids or self.chains:
            self.chains[chain_id].follow()

    def finalize(self, number: int) -> None:
        """Let L1 finalize a block."""
        self.world.finalized = number
        self.l1.publish()

    def code(self) -> Code | None:
        """Return the code of the first problem, None without one."""
        return self.problems[0].code if self.problems else None

    def meter_value(self, name: str, **labels: str) -> float:
        """Return the value of a metric, 0 if it has none yet."""
        return self.meter.registry.get_sample_value(name, labels) or 0.0

    def grow(self, blocks: int = 1, drop: int = 0) -> None:
        """Change L1, which l1 sees at once."""
        self.world.grow(blocks, drop)
        self.l1.publish()

    async def start(self) -> None:
        """Start the interop process with the buses of all processes."""
        roles = ("l1", "interop", "rpc", *(f"engine.{chain_id}" for chain_id in self.chains))
        folder = self._stack.enter_context(TemporaryDirectory(prefix="rn-"))
        self.buses: dict[str, Bus] = in_process_buses(CHANNELS, Path(folder), dict.fromkeys(roles, 1))
        await self._stack.enter_async_context(running_buses(self.buses))
        for chain_id, chain in self.chains.items():
            chain.bind(self.buses[f"engine.{chain_id}"])
        self.l1.bind(self.buses["l1"])
        engines = {chain_id: ChainEngine(chain.url, SECRET, 5.0) for chain_id, chain in self.chains.items()}
        config = InteropProcessConfig(self.config, engines, str(self.store), self.depth)
        self.meter = Meter("interop")
        if not self.store.exists():
            InteropStore(str(self.store), self.config).close()  # as the start of the node does
        self.stage = InteropStage(config, self.buses["interop"], self.meter, lambda: self.clock())
        self._tasks = await self._stack.enter_async_context(driven(self.stage, self.meter, "interop"))

    async def stop(self) -> None:
        """Stop the interop process where it is, as a kill does; all processes get new buses at the next start."""
        if self._tasks:
            self._tasks = []
            self.l1.unbind()
            for chain in self.chains.values():
                chain.unbind()
            await self._stack.aclose()

    async def until(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        """Wait for a condition; a task that has ended raises what it ended with."""

        def holds() -> object:
            for task in self._tasks:
                if task.done():
                    task.result()
            return condition()

        await until(holds, seconds)

    async def until_prepared(self) -> None:
        """Wait until the logs of before the first round are read."""
        await self.until(lambda: self.told and self.meter_value("supernode_interop_activity_state") == RUNNING)

    async def until_head(self) -> None:
        """Wait until the interop process has the L1 head."""
        head = len(self.world.l1) - 1
        await self.until(lambda: self.stage._l1.known([head])[head])

    @property
    def told(self) -> bool:
        """Whether all chains have been told what is verified."""
        return all(chain.verdicts for chain in self.chains.values())

    def opened_store(self) -> InteropStore:
        """Open the file while the process is stopped."""
        return InteropStore(str(self.store), self.config)


@asynccontextmanager
async def node_of(
    world: ServedWorld,
    store: Path,
    *,
    depth: int = 100,
    blocks: int = 4,
    leads: Mapping[int, int] | None = None,
    is_prepared: bool = True,
) -> AsyncIterator[Node]:
    """Run a supernode whose chains have read so many L1 blocks, once it `is_prepared`; it is stopped in the end.

    Chains of `leads` derive no further than that block; their engines have other, unsafe blocks above it."""
    node, config = Node(world, store, depth), world.config
    world.grow(blocks)
    for chain_id in config.chains:
        world.follow(chain_id)
    for chain_id, number in (leads or {}).items():
        node.chains[chain_id].lead_to(number)
        node.chains[chain_id].grow_unsafe(20)
    safe = min(chain.blocks()[-1].ref.timestamp for chain in node.chains.values())
    node.first = config.first_round if safe < config.activation else safe + 1
    async with served_engines(list(node.chains.values())):
        try:
            await node.start()
            if is_prepared:
                await node.until_prepared()
            yield node
        finally:
            with suppress(asyncio.CancelledError):
                await node.stop()


def derivable(node: Node) -> int:
    """Return the last second for which all chains can have their block by L1 as it is."""
    time = GENESIS_TIME
    while all(
        node.world.source(chain_id, height) < len(node.world.l1)
        for chain_id, height in node.config.heights_at(time + 1).items()
        if chain_id in node.config.begun_at(time + 1)
    ):
        time += 1
    return time


async def verify_all(node: Node) -> int:
    """Let all chains follow L1, and wait until all that can be verified is, at least one; returns the last second."""
    while derivable(node) < node.first:
        node.grow()
    node.follow()
    last = derivable(node)
    await node.until(lambda: node.told and node.verdicts.timestamp >= last)
    return last


async def assert_true(node: Node) -> int:
    """Verify all, and compare all rounds with the truth of the last L1 chain alone; returns how many there are."""
    last = await verify_all(node)
    await node.stop()
    rounds = truth(node.world, node.first, last)
    with contextlib.closing(node.opened_store()) as store:
        for timestamp, wanted in rounds.items():
            result = store.round_at(timestamp)
            assert result is not None and (result.l1, result.heads) == wanted, timestamp
    await node.start()
    return len(rounds)
