"""The p2p process: host, gossip of blocks, sync protocol, discovery, and requests of engine and rpc."""

import time
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.system import map_large_blocks
from rollup_node.stages.io.task import PeriodicTask, Stage
from rollup_node.stages.messages.base import Health, Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1Heads, RuntimeConfigs
from rollup_node.stages.messages.p2p import GapEnd, PeerStatus
from rollup_node.stages.p2p.blocks.latest_blocks import LatestBlocks
from rollup_node.stages.p2p.blocks.signing import BlockSigner, LocalSigner, UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.config import MEMORY, P2pConfig
from rollup_node.stages.p2p.host.io.connection import TransportError
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.peering.io.discovery_service import DiscoveryError, DiscoveryService, Discv5Server
from rollup_node.stages.p2p.peering.io.peer_manager import PeerManager, ScoreService
from rollup_node.stages.p2p.peering.io.port_mapper import PortMapper
from rollup_node.stages.p2p.peering.peer_info import Diagnosis
from rollup_node.stages.p2p.peering.peer_score import PeerScorer
from rollup_node.stages.p2p.process.block_publisher import BlockPublisher, UnsafeBlocksServer
from rollup_node.stages.p2p.process.gossip_service import GossipService
from rollup_node.stages.p2p.process.peers_server import PeerDirectory, PeersServer
from rollup_node.stages.p2p.process.sync_service import SyncClient, SyncServer
from rollup_node.stages.p2p.reqresp.planner import SyncPlanner
from rollup_node.stages.p2p.signer.io.remote_signer import RemoteSigner
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.p2p.storage.io.key_file import load_identity
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address

LISTENING_INTERVAL = 3600.0
NOT_STARTED_INTERVAL = 0.5
STATUS_INTERVAL = 0.5

log = Logger("p2p")


class P2pStage(Stage):
    """The process's stage; the runtime runs `periodic_tasks`."""

    def __init__(self, config: P2pConfig, bus: Bus, meter: Meter) -> None:
        self.config, self.meter = config, meter
        self._store_problems: list[str] = []
        self._signer = block_signer(config)
        self.signers = UnsafeBlockSigners()
        self._discovery_started = self._signer_known = False
        identity = load_identity(config)
        self.peerstore = self._open_store(config.peerstore_path)
        self.peerstore.save_identity(identity)
        self.host = Host(config, identity, self.peerstore, meter)
        self.peer_manager = PeerManager(self.host)
        self.discovery = DiscoveryService(self.host)
        self.scorer = PeerScorer(config.scoring, config.rollup.block_time)
        self.score_service = ScoreService(self.host, self.scorer)
        self.validator = BlockValidator(config.rollup, self.signers, config.gossip_timestamp_threshold)
        self.gossip = GossipService(self.host, self.validator, self.scorer, self._deliver)
        self.signed_blocks = self._open_signed_blocks(config)
        self.publisher = BlockPublisher(config, self._signer, self.signed_blocks, self.gossip.publish)
        self.blocks_server = UnsafeBlocksServer(
            bus, self.publisher.publish, lambda: self._signer_known, self._request_gap, LatestBlocks(self.signed_blocks)
        )
        self.sync: SyncClient | None = None
        if config.sync_req_resp:
            SyncServer(self.host, bus)
            planner = SyncPlanner(self.scorer.application, config.sync_only_req_to_static)
            self.sync = SyncClient(self.host, planner, self.peer_manager.static_peers.__contains__, self._deliver)
        self._directory = PeerDirectory(self.host, self.gossip, self.score_service, self.discovery)
        self.peers_server = PeersServer(bus, self.host, self._directory, self._diagnose, self.publisher.publish_signed)
        self._publisher = bus.publish("status.p2p")
        bus.subscribe("status.l1", self._on_l1)
        self.periodic_tasks = [
            PeriodicTask("listen for peers", self._open),
            self.gossip.periodic_task,
            self.publisher.periodic_task,
            self.score_service.periodic_task,
            PeriodicTask("status", self._publish_status),
            *self.peer_manager.periodic_tasks,
        ]
        if self.sync is not None:
            self.periodic_tasks.append(self.sync.periodic_task)
        if not config.no_discovery:
            self.periodic_tasks.append(PeriodicTask("discovery", lambda: self._discovery_step(self.discovery.discv5)))
        if config.nat:
            mapping = PeriodicTask("port forwarding", lambda: self._discovery_step(self.discovery.port_mapper))
            self.periodic_tasks.append(mapping)

    async def start(self) -> None:
        """Start listening and discovery; what fails is retried."""
        try:
            await self._open()
        except TemporaryError:
            return

    async def close(self) -> None:
        """Close everything, within two seconds."""
        self.score_service.save()
        await self.discovery.close()
        await self.host.stop()
        if self._signer is not None:
            await self._signer.close()
        if self.signed_blocks is not None:
            self.signed_blocks.close()
        self.peerstore.close()

    def publish_health(self) -> None:
        self._publisher.set(Health(self._problems()))

    def _open_store(self, path: str) -> PeerStore:
        """Open the peerstore; when its file is unusable, peers are kept in memory only."""
        try:
            return PeerStore(path)
        except StoreError as error:
            self._store_problems.append(str(error))
            log.error("peerstore unusable, keeping peers in memory", code=Code.FILE.text, error=str(error))
            return PeerStore()

    def _open_signed_blocks(self, config: P2pConfig) -> SignedBlocksFile | None:
        """Open the file of signed blocks, on nodes that sign; without it no block is signed [SGN11]."""
        genesis = config.rollup.genesis.l2.hash
        try:
            return SignedBlocksFile(genesis, config.signed_blocks_path if config.has_signer else MEMORY)
        except StoreError as error:
            self._store_problems.append(str(error))
            text = "no block is signed: the file of signed blocks cannot be used"
            log.error(text, code=Code.BLOCK_NOT_SIGNED.text, error=str(error))
            return None

    async def _open(self) -> float:
        """Start listening and discovery, as far as not yet done."""
        try:
            if not self.host.port:
                await self.host.start()
            if not self._discovery_started:
                await self.discovery.start()
                self._discovery_started = True
        except (TransportError, DiscoveryError, StoreError) as error:
            raise TemporaryError(str(error), Code.PORT_TAKEN if "in use" in str(error) else None) from None
        return LISTENING_INTERVAL

    async def _discovery_step(self, part: Discv5Server | PortMapper | None) -> float:
        """Do a step of a part of discovery, once that has started."""
        return NOT_STARTED_INTERVAL if part is None else await part.step()

    def _on_l1(self, message: Any) -> None:
        if isinstance(message, L1Heads) and message.head is not None:
            self.publisher.l1_chain.take(message.head)
        runtime_config = (
            message.chains.get(self.config.rollup.l2_chain_id) if isinstance(message, RuntimeConfigs) else None
        )
        if runtime_config is None:
            return
        address = runtime_config.unsafe_block_signer
        self._signer_known = True
        if self.signers.update(address, time.monotonic()):
            log.info("unsafe block signer updated", address=to_hex(address))
        if address == ZERO_ADDRESS:
            log.warn("no unsafe block signer on L1, ignoring gossiped blocks", code=Code.BLOCK_SIGNER.text)
        elif self._signer is not None and self._signer.address != address:
            text = f"{self._signer.option} is not the unsafe block signer"
            log.warn(text, code=Code.BLOCK_SIGNER.text, own=to_hex(self._signer.address), signer=to_hex(address))

    def _deliver(self, payload: ExecutionPayload) -> None:
        self.blocks_server.send_block(payload)

    def _request_gap(self, head: int, gap_end: GapEnd) -> None:
        if self.sync is not None:
            self.sync.request_range(head, gap_end)

    async def _publish_status(self) -> float:
        self._publisher.set(PeerStatus(len(self.host.peers()), self.gossip.mesh_size(time.time())))
        self.publish_health()
        return STATUS_INTERVAL

    def _problems(self) -> tuple[Problem, ...]:
        signed_blocks = None if self.signed_blocks is None else self.signed_blocks.problem
        own = (self.peerstore.problem, signed_blocks, self.publisher.problem)
        present = (problem for problem in own if problem is not None)
        texts = (*self._store_problems, *present)
        return (*(Problem(None, "", text) for text in texts), *self.runtime_problems)

    def _diagnose(self) -> Diagnosis:
        own: Address | None = None if self._signer is None else self._signer.address
        signers = (self.signers.current, own)
        return self._directory.diagnose(
            tuple(map(str, self._problems())),
            tuple(self.peer_manager.static_peers),
            signers,
            self.blocks_server.published,
        )


def block_signer(config: P2pConfig) -> BlockSigner | None:
    """Return what signs the blocks of this node: its key, a remote signer, or nothing."""
    if config.sequencer_key is not None:
        return LocalSigner(config.sequencer_key)
    return None if config.signer is None else RemoteSigner(config.signer)


def build(config: P2pConfig, bus: Bus, meter: Meter) -> P2pStage:
    """Create the stage. Peers send messages of ten megabytes: what these took is given back at once."""
    map_large_blocks()
    return P2pStage(config, bus, meter)
