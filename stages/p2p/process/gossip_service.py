"""Runs the gossip router over the host: one stream each way per peer, and the heartbeat [GSP1 to GSP9]."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.addresses.ip import colocation_groups
from rollup_node.stages.p2p.addresses.peer_id import PeerId, short_peer_id
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.validation import BlockValidator, ValidationFailure
from rollup_node.stages.p2p.gating.connections import PeerBackoff
from rollup_node.stages.p2p.gossipsub.params import MAX_RPC_BYTES, PROTOCOLS, gossip_params
from rollup_node.stages.p2p.gossipsub.router import GossipSubRouter, MalformedRpc
from rollup_node.stages.p2p.gossipsub.validation_queue import UnvalidatedMessage, ValidationResult, WorkBudget
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.host_api import Direction, HostEvent, PeerConnected, PeerDisconnected, StreamError
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.peering.peer_score import PeerScorer
from rollup_node.stages.protocol.payloads import ExecutionPayload

WRITE_TIMEOUT = 60.0
"""Seconds within which a peer must read one RPC."""
OUTBOUND_STREAM_TIMEOUT = 10.0
"""Seconds that a peer's inbound stream waits for our outbound one."""
MESH_TAG = "mesh"
"""The protection of the peers in the mesh of the present topic [NET8]."""
_MAX_BACKOFF = 60.0
_STABLE_SECONDS = 10.0

log = Logger("p2p")


class GossipService:
    """Gossip on all block topics; `on_block` gets accepted ones, `failures` counts others by ValidationFailure.

    `topics` has the version of each topic, oldest first."""

    def __init__(
        self, host: Host, validator: BlockValidator, scorer: PeerScorer, on_block: Callable[[ExecutionPayload], None]
    ) -> None:
        self._host, self._config = host, host.config
        self._chain_id = host.config.rollup.l2_chain_id
        self._validator, self._on_block = validator, on_block
        self.topics = block_message.block_topics(self._chain_id)
        self.router = GossipSubRouter(gossip_params(host.config), self.topics, scorer, random.Random())
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
        for protocol in PROTOCOLS:
            host.set_stream_handler(protocol, self._handle_stream)
        host.subscribe(self._on_host_event)
        self.periodic_task = PeriodicTask("gossip", self._heartbeat)

    def topic(self, timestamp: float) -> str:
        """Return the topic of blocks of a Unix time."""
        version = block_message.version_at(self._config.rollup, int(timestamp))
        return block_message.block_topic(self._chain_id, version)

    def mesh_size(self, timestamp: float) -> int:
        """Return the number of peers in the mesh of the topic of a Unix time."""
        return len(self._mesh_members(timestamp))

    def _mesh_members(self, timestamp: float) -> Collection[PeerId]:
        return self.router.meshes.members.get(self.topic(timestamp), {}).keys()

    def publish(self, payload: ExecutionPayload, version: int, part: bytes, signature: bytes) -> str | None:
        """Gossip a block of ours with its signature over `part`; return the error, None once published [VAL14]."""
        now = time.monotonic()
        validation = self._validator.validate(version, signature + part, time.time(), now)
        if validation.failure is ValidationFailure.SEEN:
            return None
        if validation.result is not ValidationResult.ACCEPT:
            return f"peers would not accept the block: {validation}"
        topic = block_message.block_topic(self._chain_id, version)
        count = self.router.publish(topic, block_message.encode_message(signature, part), now)
        self._wake_writers()
        log.debug("published block", number=payload.block_number, peers=count or 0)
        return None

    async def _handle_stream(self, stream: Stream) -> None:
        """Read a peer's RPCs until its stream ends; a newer stream of the peer replaces an older one."""
        peer = stream.peer
        older, self._inbound[peer] = self._inbound.get(peer), stream
        if older is not None:
            older.reset()
        try:
            await self._wait_for_outbound_stream(peer)
            while True:
                await asyncio.sleep(self.work_budget.delay(peer, time.monotonic()))
                rpc = await stream.read_message(MAX_RPC_BYTES)
                if rpc is None:
                    return
                self._handle_rpc(peer, rpc)
                # The next message may take for ever to come.
                del rpc
        except StreamError:
            stream.reset()
        finally:
            if self._inbound.get(peer) is stream:
                del self._inbound[peer]

    async def _wait_for_outbound_stream(self, peer: PeerId) -> None:
        """Wait until the router knows the peer: messages that come before would be dropped."""
        if peer not in self._writers and self._host.connection(peer) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(OUTBOUND_STREAM_TIMEOUT):
                    await self._outbound_open.setdefault(peer, asyncio.Event()).wait()

    def _handle_rpc(self, peer: PeerId, rpc: bytes) -> None:
        """Handle one RPC, charged to the peer unless it brings a valid new block. Raises StreamError."""
        started = time.thread_time()
        received = self.router.receive_rpc(peer, rpc, time.monotonic())
        # A list, not a generator: every message is validated, also after the first one that is accepted.
        is_useful = not isinstance(received, MalformedRpc) and any([self._validate(item) for item in received])
        self._wake_writers()
        if not is_useful and self._host.connection(peer) is not None:
            self.work_budget.charge(peer, time.thread_time() - started, time.monotonic())
        if isinstance(received, MalformedRpc):
            log.debug("malformed gossip RPC", peer=short_peer_id(peer), error=received.error)
            raise StreamError(received.error)

    def _validate(self, message: UnvalidatedMessage) -> bool:
        """Validate a message, report and return whether it is accepted; a crash is a REJECT [VAL13]."""
        version, now = self.topics[message.topic], time.monotonic()
        try:
            validation = self._validator.validate(version, message.content, time.time(), now)
        except Exception as bug:
            log.crash("validation of a gossiped block crashed", bug, peer=short_peer_id(message.peer))
            self.router.report_validation_result(message.id, ValidationResult.REJECT, now)
            return False
        # The router forwards an accepted message to the mesh here, before the engine has it.
        self.router.report_validation_result(message.id, validation.result, now)
        if validation.result is ValidationResult.ACCEPT and validation.payload is not None:
            self.accepted += 1
            self.accepted_at = now
            self._on_block(validation.payload)
        elif validation.failure is not None:
            self.failures[validation.failure.name.lower()] += 1
            log.debug("gossiped block not accepted", peer=short_peer_id(message.peer), reason=str(validation))
        return validation.result is ValidationResult.ACCEPT

    def _on_host_event(self, event: HostEvent) -> None:
        if isinstance(event, PeerDisconnected):
            self._outbound_open.pop(event.peer, asyncio.Event()).set()
            self.work_budget.remove_peer(event.peer)
        if isinstance(event, PeerConnected):
            if event.peer in self._retry_now:
                self._retry_now[event.peer].set()
            else:
                self._host.spawn(self._keep_outbound_stream(event.peer))

    async def _keep_outbound_stream(self, peer: PeerId) -> None:
        """Keep an outbound stream open, with backoff, for as long as the peer is connected."""
        retry_now = self._retry_now[peer] = asyncio.Event()
        try:
            while self._host.connection(peer) is not None:
                retry_now.clear()
                started = time.monotonic()
                try:
                    protocol, stream = await self._host.open_stream(peer, PROTOCOLS)
                except StreamError as error:
                    log.debug("cannot open gossip stream", peer=short_peer_id(peer), error=str(error))
                else:
                    await self._write_rpcs(peer, protocol, stream)
                if time.monotonic() - started >= _STABLE_SECONDS:
                    self._backoff.succeeded(peer)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._backoff.failed(peer, time.monotonic())):
                        await retry_now.wait()
        finally:
            del self._retry_now[peer]

    async def _write_rpcs(self, peer: PeerId, protocol: str, stream: Stream) -> None:
        """Write what is queued until the stream breaks; then reset the inbound one, so that the peer comes again."""
        queued = self._writers[peer] = asyncio.Event()
        connections = self._host.connections_to_peer(peer)
        is_outbound = bool(connections) and connections[0].direction is Direction.OUTBOUND
        groups = [group for connection in connections for group in colocation_groups(connection.remote_ip)]
        self.router.add_peer(peer, protocol, is_outbound, groups)
        self._outbound_open.pop(peer, asyncio.Event()).set()
        self._wake_writers()
        watcher = asyncio.get_running_loop().create_task(_watch_stream(stream, queued))
        try:
            while not watcher.done() or watcher.result():
                queued.clear()
                while (frame := self.router.next_frame(peer)) is not None:
                    async with asyncio.timeout(WRITE_TIMEOUT):
                        await stream.write(frame)
                await queued.wait()
        except (StreamError, TimeoutError):
            pass
        finally:
            watcher.cancel()
            del self._writers[peer]
            self.router.remove_peer(peer, time.monotonic())
            stream.reset()
            if peer in self._inbound:
                self._inbound[peer].reset()

    def _wake_writers(self) -> None:
        for peer in self.router.take_ready():
            if peer in self._writers:
                self._writers[peer].set()

    async def _heartbeat(self) -> float:
        self.router.heartbeat(time.monotonic())
        self._wake_writers()
        self._protect_mesh()
        for event, count in self.router.take_event_counts().items():
            self._host.meter.count("p2p_gossip_events_total", count, type=event.value)
        return self.router.params.heartbeat_interval

    def _protect_mesh(self) -> None:
        """Protect the mesh of the present topic from trimming; the meshes of past forks are open to anyone [NET8]."""
        before, self._protected = self._protected, set(self._mesh_members(time.time()))
        for peer in before - self._protected:
            self._host.connection_manager.unprotect(peer, MESH_TAG)
        for peer in self._protected - before:
            self._host.connection_manager.protect(peer, MESH_TAG)


async def _watch_stream(stream: Stream, queued: asyncio.Event) -> bool:
    """Read a stream that only we write to; return whether it stays usable when the peer closes its direction."""
    try:
        while await stream.read():
            pass
        return True
    except StreamError:
        return False
    finally:
        queued.set()
