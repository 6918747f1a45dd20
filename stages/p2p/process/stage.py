"""The p2p process: the host with its peers, gossip of blocks, blocks by request, discovery, and what the engine and rpc
processes ask of it. Nothing that peers send can end it."""

import time
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.messages.p2p import GapEnd, PeerStatus
from rollup_node.stages.p2p.blocks.signing import LocalSigner, Signers
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.discv5.io.udp_service import DiscoveryError, DiscoveryServer
from rollup_node.stages.p2p.gating.connection_gater import parse_ip
from rollup_node.stages.p2p.host.io.connection import TransportError
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.peering.io.discovery_service import PeerFinder
from rollup_node.stages.p2p.peering.io.peer_manager import Upkeep
from rollup_node.stages.p2p.peering.io.score_service import ScoreKeeper
from rollup_node.stages.p2p.peerstore.io.database import StoreError
from rollup_node.stages.p2p.peerstore.io.key_file import load_identity
from rollup_node.stages.p2p.peerstore.io.peerstore import PeerStore
from rollup_node.stages.p2p.process.blocks_server import BlocksServer
from rollup_node.stages.p2p.process.diagnosis import Diagnosis, Examiner
from rollup_node.stages.p2p.process.engine_client import BlockReader
from rollup_node.stages.p2p.process.gossip_service import GossipService
from rollup_node.stages.p2p.process.peers_server import Directory, PeersServer
from rollup_node.stages.p2p.process.sync_service import SyncClient, SyncServer
from rollup_node.stages.p2p.reqresp.planner import SyncPlanner, Target
from rollup_node.stages.p2p.scoring.peer_score import peer_scores
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address

OPEN_SECONDS = 3600.0
CLOSED_SECONDS = 0.5
STATUS_SECONDS = 0.5

log = get_logger("p2p")


class P2pStage:
    """All of one process's job; `activities` are what the runtime drives."""

    def __init__(self, config: P2pConfig, bus: Bus, meter: Meter) -> None:
        self.config, self.meter = config, meter
        self._runtime_problems: tuple[str, ...] = ()
        self._store_problem: str | None = None
        self._signer = None if config.sequencer_key is None else LocalSigner(config.sequencer_key)
        self._signers = Signers()
        self._is_found = self._knows_signer = False
        identity = load_identity(config).identity
        self.store = self._open_store(config.peerstore_path)
        self.store.keep_identity(identity)
        self.host = Host(config, identity, self.store, meter)
        self.upkeep = Upkeep(self.host)
        self.finder = PeerFinder(self.host)
        self.scores = peer_scores(config.scoring, config.rollup.block_time, exempt=is_own_machine)
        self.keeper = ScoreKeeper(self.host, self.scores)
        self.validator = BlockValidator(config.rollup, self._signers, config.gossip_timestamp_threshold)
        self.blocks = BlocksServer(bus, self._publish, lambda: self._knows_signer, self._fill)
        deliver = self.blocks.deliver
        self.gossip = GossipService(self.host, self.validator, self.scores, self._signer, deliver)
        self.sync: SyncClient | None = None
        if config.sync_req_resp:
            SyncServer(self.host, BlockReader(bus).read)
            planner = SyncPlanner(self.scores.app, config.sync_only_req_to_static)
            self.sync = SyncClient(self.host, planner, self.upkeep.is_static, deliver)
        directory = Directory(self.host, self.gossip, self.keeper, self._discovery)
        self._examiner = Examiner(self.host, self.gossip, self._discovery)
        self.calls = PeersServer(bus, self.host, directory, self._diagnosis)
        self._publisher = bus.publish("status.p2p")
        bus.subscribe("status.l1", self._on_l1)
        self.periodic_tasks = [
            PeriodicTask("listen for peers", self._open),
            self.gossip.heartbeat,
            self.keeper.activity,
            PeriodicTask("status", self._tell),
            *self.upkeep.periodic_tasks,
        ]
        if self.sync is not None:
            self.periodic_tasks.append(self.sync.activity)
        if not config.no_discovery:
            self.periodic_tasks.append(PeriodicTask("discovery", lambda: self._found_step("discovery")))
        if config.nat:
            self.periodic_tasks.append(PeriodicTask("port forwarding", lambda: self._found_step("port forwarding")))

    # --- what the runtime calls ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begins to listen; what cannot be opened now is tried again."""
        try:
            await self._open()
        except TemporaryError:
            return

    async def close(self) -> None:
        """Closes everything, within two seconds."""
        self.keeper.save()
        await self.finder.close()
        await self.host.stop()
        self.store.close()

    def reset(self, error: Exception) -> None:
        """Has nothing to reset."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Tells what is wrong."""
        self._runtime_problems = problems
        self._publisher.set(Health(self._problems()))

    # --- opening ---------------------------------------------------------------------------------------------------

    def _open_store(self, path: str) -> PeerStore:
        """The peer store; a file that cannot be used costs its memory and no more."""
        try:
            return PeerStore(path)
        except StoreError as error:
            self._store_problem = str(error)
            log.error("peers are kept in memory only", problem=str(error))
            return PeerStore()

    async def _open(self) -> float:
        """Listens and begins discovery, as far as that is not yet done."""
        try:
            if not self.host.port:
                await self.host.start()
            if not self._is_found:
                await self.finder.start()
                self._is_found = True
        except (TransportError, DiscoveryError, StoreError) as error:
            raise TemporaryError(str(error)) from None
        return OPEN_SECONDS

    async def _found_step(self, name: str) -> float:
        """One step of an activity of the finder, which it has once it has started."""
        steps = {activity.name: activity.step for activity in self.finder.periodic_tasks} if self._is_found else {}
        if name in steps:
            return await steps[name]()
        return OPEN_SECONDS if self._is_found else CLOSED_SECONDS

    def _discovery(self) -> DiscoveryServer | None:
        return self.finder.server if self._is_found else None

    # --- news ------------------------------------------------------------------------------------------------------

    def _on_l1(self, message: Any) -> None:
        if not isinstance(message, RuntimeConfig):
            return
        address = message.unsafe_block_signer
        self._knows_signer = True
        if self._signers.update(address, time.monotonic()):
            log.info("unsafe blocks are signed by", address=to_hex(address))
        if address == ZERO_ADDRESS:
            log.warn("L1 names no unsafe block signer: blocks of peers are ignored")
        elif self._signer is not None and self._signer.address != address:
            log.warn("p2p.sequencer.key is not the chain's signer", key=to_hex(self._signer.address))

    def _publish(self, payload: ExecutionPayload) -> str | None:
        return self.gossip.publish(payload)

    def _fill(self, head: int, gap_end: GapEnd) -> None:
        if self.sync is not None:
            self.sync.want(head, Target(gap_end.number, gap_end.hash, gap_end.parent_hash))

    # --- what others are told --------------------------------------------------------------------------------------

    async def _tell(self) -> float:
        self._publisher.set(PeerStatus(len(self.host.peers()), self.gossip.mesh(time.time())))
        self._publisher.set(Health(self._problems()))
        return STATUS_SECONDS

    def _problems(self) -> tuple[str, ...]:
        own = (self._store_problem, self.store.problem)
        return (*(problem for problem in own if problem is not None), *self._runtime_problems)

    def _diagnosis(self) -> Diagnosis:
        own: Address | None = None if self._signer is None else self._signer.address
        signers = (self._signers.current, own)
        return self._examiner.examine(self._problems(), self.upkeep.static, signers, self.blocks.published)


def is_own_machine(address: str) -> bool:
    """Whether peers at an address are on our own machine, where there may be many."""
    return parse_ip(address).is_loopback


def build(config: P2pConfig, bus: Bus, meter: Meter) -> P2pStage:
    """Makes the stage; it listens once it is started."""
    return P2pStage(config, bus, meter)
