"""A run with faults: the watch on gossip and the faults beside the network, and the report at the end."""

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.logger import Level, configuration, set_level
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.tools.devnet.faults.injector import FaultInjector, NoRecovery
from rollup_node.tools.devnet.faults.report import ChaosReport, all_commits, chain_hashes, chaos_report
from rollup_node.tools.devnet.files import SIGNER_KEY
from rollup_node.tools.devnet.network import NetworkPrograms
from rollup_node.tools.devnet.ports import address
from rollup_node.tools.devnet.settings import VERIFIER
from rollup_node.tools.devnet.status import NoProgress

if TYPE_CHECKING:
    from rollup_node.tools.devnet.faults.report import BlockWatch


class ChaosSession:
    """Injects faults every `every` seconds while the context lasts; `conductor` is the URL of the network's."""

    def __init__(
        self, network: NetworkPrograms, conductor: str, every: float, seed: int, say: Callable[[str], None]
    ) -> None:
        self._network = network
        self._level = configuration().level
        self._tasks: list[asyncio.Task[None]] = []
        self._watch = _block_watch(network)
        self._injector = FaultInjector(network, conductor, every, random.Random(seed), say)
        self._conductor = JsonRpcClient(conductor)

    async def __aenter__(self) -> Self:
        set_level(Level.ERROR)  # the peers of the watch come and go on purpose
        self._tasks = [asyncio.create_task(self._watch.run()), asyncio.create_task(self._injector.run())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()
        set_level(self._level)
        await self._injector.close()
        await self._conductor.close()

    def check(self) -> None:
        """Raise what ended the watch or the faults, such as NoProgress."""
        for task in self._tasks:
            if task.done():
                try:
                    task.result()
                except NoRecovery as error:
                    raise NoProgress(str(error)) from error

    @property
    def faults(self) -> int:
        """The faults after which the chain has advanced."""
        return sum(self._injector.counts.values())

    async def report(self, last: int) -> ChaosReport:
        """End the faults and report on the blocks up to `last`, the safe head."""
        await self._stop()
        commits = await all_commits(self._conductor)
        failovers = (await self._conductor.call("dev_conductor", 0))["failovers"]
        engine = JsonRpcClient(self._network.engines[VERIFIER][0])
        try:
            canonical = await chain_hashes(engine, last)
        finally:
            await engine.close()
        watch = self._watch
        return chaos_report(self._injector.counts, failovers, commits, watch.hashes, watch.arrivals, canonical)

    async def _stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_all(tasks)


def _block_watch(network: NetworkPrograms) -> "BlockWatch":
    """Return a watch whose peers are the sequencers."""
    # Imported here alone: the p2p stage would make every local network start later.
    from rollup_node.tools.devnet.faults.report import BlockWatch

    peers = [address(network.files, name, port) for name, port in network.sequencer_p2p_ports.items()]
    rollup = parse_rollup_config(network.files.rollup.read_bytes()).config
    return BlockWatch(rollup, SIGNER_KEY.address, peers)
