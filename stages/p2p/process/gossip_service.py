"""Carries gossip: one stream to each peer for what the router says, one from it for what it hears, the heartbeat, and
the judging of blocks between arrival and passing on (node-behaviour 13.3-13.5)."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.addresses.ip import colocation_groups
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.p2p.blocks.ssz import SszError
from rollup_node.stages.p2p.blocks.validation import BlockValidator, ValidationFailure
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.gating.backoff import PeerBackoff
from rollup_node.stages.p2p.gossipsub.message import UnvalidatedMessage, ValidationResult
from rollup_node.stages.p2p.gossipsub.params import MAX_RPC_BYTES, PROTOCOLS, GossipParams
from rollup_node.stages.p2p.gossipsub.router import GossipSubRouter, MalformedRpc
from rollup_node.stages.p2p.gossipsub.work_budget import WorkBudget
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import (
    Direction,
    HostEvent,
    PeerConnected,
    PeerDisconnected,
    Stream,
    StreamError,
)
from rollup_node.stages.p2p.identity.peer_id import PeerId, short_peer_id
from rollup_node.stages.p2p.scoring.peer_score import PeerScorer
from rollup_node.stages.protocol.payloads import ExecutionPayload

WRITE_TIMEOUT = 60.0
"""How long a peer may take to take what one write holds."""
OUTBOUND_STREAM_TIMEOUT = 10.0
"""How long what a peer says waits for our stream to it."""
MESH_TAG = "mesh"
"""Protects the mesh of blocks of now from being trimmed."""
_MAX_BACKOFF = 60.0
_STABLE_SECONDS = 10.0

log = get_logger("p2p")


def gossip_params_of(config: P2pConfig) -> GossipParams:
    """The router's numbers with those that options set."""
    return GossipParams(
        d=config.mesh_d,
        d_lo=config.mesh_lo,
        d_hi=config.mesh_hi,
        d_lazy=config.mesh_lazy,
        flood_publish=config.flood_publish,
    )


class GossipService:
    """Gossip on all block topics of the chain. `on_block` hears of each block of others that is accepted; `signer` is
    None on nodes that publish nothing. `refusals` counts blocks by what was wrong; `accepted_at` is monotonic."""

    def __init__(
        self,
        host: Host,
        validator: BlockValidator,
        scores: PeerScorer,
        signer: LocalSigner | None,
        on_block: Callable[[ExecutionPayload], None],
    ) -> None:
        self._host, self._config = host, host.config
        self._chain_id = host.config.rollup.l2_chain_id
        self._validator, self._signer, self._on_block = validator, signer, on_block
        self._topics = block_message.block_topics(self._chain_id)
        self.router = GossipSubRouter(gossip_params_of(host.config), self._topics, scores, random.Random())
        self._inbound: dict[PeerId, Stream] = {}
        self._writers: dict[PeerId, asyncio.Event] = {}
        self._retry_now: dict[PeerId, asyncio.Event] = {}
        self._outbound_open: dict[PeerId, asyncio.Event] = {}
        self._backoff = PeerBackoff(maximum=_MAX_BACKOFF)
        self.work_budget = WorkBudget()
        self._protected: set[PeerId] = set()
        self.failures: Counter[str] = Counter()
        self.accepted = 0
        self.accepted_at: float | None = None
        for topic in self._topics:
            self.router.join(topic)
        for protocol in PROTOCOLS:
            host.set_stream_handler(protocol, self._handle_stream)
        host.subscribe(self._on_host_event)
        self.activity = PeriodicTask("gossip", self._heartbeat)

    @property
    def topics(self) -> list[str]:
        """The topics, oldest version first."""
        return list(self._topics)

    def topic(self, timestamp: float) -> str:
        """The topic for blocks of a time."""
        version = block_message.version_at(self._config.rollup, int(timestamp))
        return block_message.block_topic(self._chain_id, version)

    def mesh_size(self, timestamp: float) -> int:
        """How many peers are in the mesh of the topic for blocks of a time."""
        return len(self._mesh_members(timestamp))

    def _mesh_members(self, timestamp: float) -> Collection[PeerId]:
        return self.router.meshes.members.get(self.topic(timestamp), {}).keys()

    # --- our own blocks --------------------------------------------------------------------------------------------

    def publish(self, payload: ExecutionPayload) -> str | None:
        """Signs a block and gossips it; why it could not be, or None. One that is out already is no error."""
        if self._signer is None:
            return "the node has no key to sign with (p2p.sequencer.key)"
        version = block_message.version_at(self._config.rollup, payload.timestamp)
        try:
            part = block_message.encode_signed_part(payload, version)
        except SszError as error:
            return f"the block cannot be encoded: {error}"
        signature = self._signer.sign(self._chain_id, part)
        now = time.monotonic()
        judged = self._validator.validate(version, signature + part, time.time(), now)
        if judged.failure is ValidationFailure.SEEN:
            return None
        if judged.result is not ValidationResult.ACCEPT:
            return f"peers would not accept the block: {judged}"
        topic = block_message.block_topic(self._chain_id, version)
        count = self.router.publish(topic, block_message.encode_message(signature, part), now)
        self._wake_writers()
        log.debug("published a block", number=payload.block_number, peers=count or 0)
        return None

    # --- what peers say --------------------------------------------------------------------------------------------

    async def _handle_stream(self, stream: Stream) -> None:
        """Takes a peer's messages until its stream ends; a newer stream of the peer ends an older one."""
        peer = stream.peer
        older, self._inbound[peer] = self._inbound.get(peer), stream
        if older is not None:
            older.reset()
        try:
            await self._wait_for_outbound_stream(peer)
            while True:
                await asyncio.sleep(self.work_budget.delay(peer, time.monotonic()))
                message = await stream.read_message(MAX_RPC_BYTES)
                if message is None:
                    return
                self._handle_rpc(peer, message)
        except StreamError:
            stream.reset()
        finally:
            if self._inbound.get(peer) is stream:
                del self._inbound[peer]

    async def _wait_for_outbound_stream(self, peer: PeerId) -> None:
        """Waits for our own stream to the peer: what it says first would be lost before."""
        if peer not in self._writers and self._host.connection(peer) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(OUTBOUND_STREAM_TIMEOUT):
                    await self._outbound_open.setdefault(peer, asyncio.Event()).wait()

    def _handle_rpc(self, peer: PeerId, message: bytes) -> None:
        """Takes one message of a peer, at its cost unless there is a new block in it; StreamError if it is none."""
        began = time.thread_time()
        found = self.router.receive_rpc(peer, message, time.monotonic())
        is_useful = not isinstance(found, MalformedRpc) and any([self._validate(incoming) for incoming in found])
        self._wake_writers()
        if not is_useful and self._host.connection(peer) is not None:
            self.work_budget.charge(peer, time.thread_time() - began, time.monotonic())
        if isinstance(found, MalformedRpc):
            log.debug("malformed gossip", peer=short_peer_id(peer), why=found.reason)
            raise StreamError(found.reason)

    def _validate(self, incoming: UnvalidatedMessage) -> bool:
        """Decides about one message, and says whether it is accepted; a crash of the checks is a refusal."""
        version, now = self._topics[incoming.topic], time.monotonic()
        try:
            judged = self._validator.validate(version, incoming.content, time.time(), now)
        except Exception as bug:
            log.crash("the check of a gossiped block failed", bug, peer=short_peer_id(incoming.peer))
            self.router.report_validation_result(incoming.id, ValidationResult.REJECT, now)
            return False
        self.router.report_validation_result(incoming.id, judged.result, now)
        if judged.result is ValidationResult.ACCEPT and judged.payload is not None:
            self.accepted += 1
            self.accepted_at = now
            self._on_block(judged.payload)
        elif judged.failure is not None:
            self.failures[judged.failure.name.lower()] += 1
            log.debug("gossiped block refused", peer=short_peer_id(incoming.peer), why=str(judged))
        return judged.result is ValidationResult.ACCEPT

    # --- what we say -----------------------------------------------------------------------------------------------

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerDisconnected):
            self._outbound_open.pop(event.peer, None)
            self.work_budget.remove_peer(event.peer)
        if isinstance(event, PeerConnected):
            if event.peer in self._retry_now:
                self._retry_now[event.peer].set()
            else:
                self._host.spawn(self._keep_outbound_stream(event.peer))

    async def _keep_outbound_stream(self, peer: PeerId) -> None:
        """Keeps a stream to a peer for as long as it is connected and speaks any of our protocols."""
        again = self._retry_now[peer] = asyncio.Event()
        try:
            while self._host.connection(peer) is not None:
                again.clear()
                began = time.monotonic()
                try:
                    protocol, stream = await self._host.open_stream(peer, PROTOCOLS)
                except StreamError as error:
                    log.debug("no gossip with a peer", peer=short_peer_id(peer), why=str(error))
                else:
                    await self._write_rpcs(peer, protocol, stream)
                if time.monotonic() - began >= _STABLE_SECONDS:
                    self._backoff.succeeded(peer)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._backoff.failed(peer, time.monotonic())):
                        await again.wait()
        finally:
            del self._retry_now[peer]

    async def _write_rpcs(self, peer: PeerId, protocol: str, stream: Stream) -> None:
        """Writes what the router has for a peer until the stream breaks. Then the peer is to greet us anew, so its
        stream is given up too."""
        ready = self._writers[peer] = asyncio.Event()
        connections = self._host.live(peer)
        is_outbound = bool(connections) and connections[0].direction is Direction.OUTBOUND
        places = [place for connection in connections for place in colocation_groups(connection.remote_ip)]
        self.router.add_peer(peer, protocol, is_outbound, places)
        self._outbound_open.pop(peer, asyncio.Event()).set()
        self._wake_writers()
        watching = asyncio.get_running_loop().create_task(_watch_stream(stream, ready))
        try:
            while not watching.done() or watching.result():
                ready.clear()
                while (frame := self.router.next_frame(peer)) is not None:
                    async with asyncio.timeout(WRITE_TIMEOUT):
                        await stream.write(frame)
                await ready.wait()
        except (StreamError, TimeoutError):
            pass
        finally:
            watching.cancel()
            del self._writers[peer]
            self.router.remove_peer(peer, time.monotonic())
            stream.reset()
            if peer in self._inbound:
                self._inbound[peer].reset()

    def _wake_writers(self) -> None:
        """Wakes those who have something to write."""
        for peer in self.router.take_ready():
            if peer in self._writers:
                self._writers[peer].set()

    async def _heartbeat(self) -> float:
        """One heartbeat."""
        self.router.heartbeat(time.monotonic())
        self._wake_writers()
        self._protect_mesh()
        for name, count in self.router.take_event_counts().items():
            self._host.meter.count("p2p_gossip_events_total", count, type=name)
        return self.router.params.heartbeat_interval

    def _protect_mesh(self) -> None:
        """Keeps the mesh of blocks of now from being trimmed; that of older blocks is anybody's to fill."""
        before, self._protected = self._protected, set(self._mesh_members(time.time()))
        for peer in before - self._protected:
            self._host.connection_manager.unprotect(peer, MESH_TAG)
        for peer in self._protected - before:
            self._host.connection_manager.protect(peer, MESH_TAG)


async def _watch_stream(stream: Stream, ready: asyncio.Event) -> bool:
    """Watches a stream that only we write to, and wakes its writer when it breaks. True if the peer has merely ended
    its own direction."""
    try:
        while await stream.read():
            pass
        return True
    except StreamError:
        return False
    finally:
        ready.set()
