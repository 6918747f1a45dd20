"""What a run with faults has to show.

One block signed for each height, none gossiped that was not committed, and the committed blocks are the chain."""

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.peering.io.peer_manager import PeerManager
from rollup_node.stages.p2p.peering.peer_score import PeerScorer
from rollup_node.stages.p2p.process.gossip_service import GossipService
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Address, Hash


@dataclass(frozen=True)
class ChaosReport:
    """Heights are block numbers; `longest_gap` is the greatest time in seconds between two new blocks on gossip."""

    faults: dict[str, int]
    failovers: int
    committed: int
    gossiped: int
    signed_twice: tuple[int, ...]
    gossiped_uncommitted: tuple[int, ...]
    off_the_chain: tuple[int, ...]
    longest_gap: float

    @property
    def passed(self) -> bool:
        """Whether there is one chain."""
        return not (self.signed_twice or self.gossiped_uncommitted or self.off_the_chain)

    def lines(self) -> list[str]:
        """Return the report as text."""
        faults = ", ".join(f"{count} x {name}" for name, count in self.faults.items() if count)
        result = [
            f"faults: {faults or 'none'}",
            f"failovers: {self.failovers}; blocks committed: {self.committed}, seen on gossip: {self.gossiped}; "
            f"longest gap without a block: {self.longest_gap:.1f} s",
        ]
        for text, heights in (
            ("heights SIGNED TWICE with different hashes", self.signed_twice),
            ("blocks GOSSIPED that were not committed", self.gossiped_uncommitted),
            ("committed blocks that are NOT ON THE CHAIN", self.off_the_chain),
        ):
            if heights:
                result.append(f"{text}: {', '.join(map(str, heights))}")
        if self.passed:
            result.append(
                "no height was signed twice, no block gossiped without a commit, all committed blocks are the chain"
            )
        return result


def chaos_report(
    faults: Mapping[str, int],
    failovers: int,
    committed: Iterable[tuple[int, str]],
    gossiped: Mapping[int, set[bytes]],
    arrivals: Sequence[float],
    canonical: Mapping[int, str],
) -> ChaosReport:
    """Compare commits (number and hash), blocks on gossip by height, their arrival times, and the safe chains."""
    commits = list(committed)
    known = set(commits)
    uncommitted = sorted(n for n, result in gossiped.items() if any((n, to_hex(item)) not in known for item in result))
    return ChaosReport(
        faults=dict(faults),
        failovers=failovers,
        committed=len(known),
        gossiped=sum(map(len, gossiped.values())),
        signed_twice=tuple(sorted(number for number, result in gossiped.items() if len(result) > 1)),
        gossiped_uncommitted=tuple(uncommitted),
        off_the_chain=tuple(sorted({n for n, item in commits if n in canonical and canonical[n] != item})),
        longest_gap=round(max((later - earlier for earlier, later in pairwise(arrivals)), default=0.0), 1),
    )


async def all_commits(conductor: JsonRpcClient) -> list[tuple[int, str]]:
    """Return number and hash of all commits. Raises EndpointError and RpcFailure."""
    result: list[tuple[int, str]] = []
    while page := await conductor.call("dev_commits", len(result)):
        result += [(number, block_hash) for number, block_hash, _ in page]
    return result


async def chain_hashes(engine: JsonRpcClient, last: int) -> dict[int, str]:
    """Return the hashes of blocks 0 to `last` of an engine. Raises EndpointError and RpcFailure."""
    blocks: list[Any] = await engine.batch([("eth_getBlockByNumber", (hex(n), False)) for n in range(last + 1)])
    return {number: block["hash"] for number, block in enumerate(blocks) if isinstance(block, dict)}


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
        scorer = PeerScorer(config.scoring, rollup.block_time)
        gossip = GossipService(self._host, validator, scorer, self._record)
        self._tasks = [gossip.periodic_task, *PeerManager(self._host).periodic_tasks]

    async def run(self) -> None:
        """Watch until it is cancelled."""
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
