"""A peer of the sequencers that records each signed block on gossip, with the time of its arrival."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity
from rollup_node.stages.p2p.peering.io.peer_manager import PeerManager
from rollup_node.stages.p2p.process.gossip_service import GossipService
from rollup_node.stages.p2p.process.stage import is_own_machine
from rollup_node.stages.p2p.scoring.peer_score import peer_scorer
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Address, Hash

LISTEN_IP, NETRESTRICT = "127.0.0.1", "127.0.0.0/8"
MAX_AGE_SECONDS = 3600.0
RETRY_SECONDS = 1.0


class BlockWatch:
    """The blocks of each height that were signed by `signer`, and when new heights came.

    `arrivals` are the monotonic times at which the first block of a new highest number came."""

    def __init__(self, rollup: RollupConfig, signer: Address, peers: Sequence[str]) -> None:
        self.hashes: dict[int, set[Hash]] = {}
        self.arrivals: list[float] = []
        config = P2pConfig(
            rollup,
            listen_ip=LISTEN_IP,
            listen_tcp=0,
            no_discovery=True,
            netrestrict=(NETRESTRICT,),
            static=tuple(peers),
            gossip_timestamp_threshold=MAX_AGE_SECONDS,
        )
        signers = UnsafeBlockSigners()
        signers.update(signer, time.monotonic())
        self._peerstore = PeerStore()
        self._host = Host(config, NetworkIdentity(secrets.token_bytes(32)), self._peerstore, Meter("p2p"))
        validator = BlockValidator(rollup, signers, MAX_AGE_SECONDS)
        scorer = peer_scorer(config.scoring, rollup.block_time, exempt=is_own_machine)
        gossip = GossipService(self._host, validator, scorer, self._record)
        self._tasks = [gossip.periodic_task, *PeerManager(self._host).periodic_tasks]

    async def run(self) -> None:
        """Watches until it is cancelled."""
        await self._host.start()
        try:
            async with asyncio.TaskGroup() as group:
                for task in self._tasks:
                    group.create_task(_repeat(task))
        finally:
            await self._host.stop()
            self._peerstore.close()

    def _record(self, payload: ExecutionPayload) -> None:
        if payload.block_number > max(self.hashes, default=-1):
            self.arrivals.append(time.monotonic())
        self.hashes.setdefault(payload.block_number, set()).add(payload.block_hash)


async def _repeat(task: PeriodicTask) -> None:
    while True:
        try:
            delay = await task.step()
        except TemporaryError:
            delay = RETRY_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await task.wake.wait()
        task.wake.clear()
