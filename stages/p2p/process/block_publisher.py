"""The server of `p2p.blocks`, and the signing and gossip of the blocks that this node sequenced [SEQ24, SGN8].

Peers' blocks go to the engine process; its own are published once each, without delaying it."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.io.log.lasting_conditions import RepeatedWarnings
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages import p2p
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.messages.p2p import PublishRequest
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.block_message import SszError
from rollup_node.stages.p2p.blocks.latest_blocks import LatestBlocks
from rollup_node.stages.p2p.blocks.signing import BlockSigner, SigningError, payload_hash
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.signer.io.signed_blocks_file import EncodedPayload, SignedBlocksFile
from rollup_node.stages.p2p.signer.signed_blocks import RecentL1Chain, signing_request
from rollup_node.stages.p2p.signer.signing_queue import Done, SigningQueue, WaitingBlock
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload

IDLE_SECONDS = 60.0
AGE_CHECK_SECONDS = 1.0
NO_SIGNER = "no key to sign the block with (p2p.sequencer.key or signer.endpoint)"
NO_FILE = "the file of signed blocks cannot be used, so that no block is signed"

Gossip = Callable[[ExecutionPayload, int, bytes, bytes], str | None]
"""Publishes a block with version, signed part and signature; returns the error."""

REFUSED_ADVICE = (
    "nothing is to be done: blocks above the highest signed one are signed again. Only if the chain was rolled back on"
    " purpose, remove the file while the node is stopped: without it a second block of a height may be signed"
)

log = Logger("p2p")


class BlockPublisher:
    """Signs and publishes blocks, one at a time, the newest first.

    `signer` is None on nodes that do not publish, `signed_blocks` where their file cannot be used: then no block is
    signed. Whether a block may be signed is decided when it arrives [SGN10]. `problem` says why blocks wait."""

    def __init__(
        self, config: P2pConfig, signer: BlockSigner | None, signed_blocks: SignedBlocksFile | None, gossip: Gossip
    ) -> None:
        self._config, self._signer, self._signed_blocks, self._gossip = config, signer, signed_blocks, gossip
        self.l1_chain = RecentL1Chain()
        self._queue = SigningQueue(config.gossip_timestamp_threshold)
        self._warnings = RepeatedWarnings(log)
        self.problem: str | None = None
        self.periodic_task = PeriodicTask("sign blocks", self._step)

    def publish(self, request: PublishRequest, done: Done) -> None:
        """Take a block over; `done` is called once with its error, None when it is published."""
        payload = request.payload
        if self._signer is None or self._signed_blocks is None:
            done(NO_SIGNER if self._signer is None else NO_FILE)
            return
        try:
            encoded = self._encode(payload)
        except SszError as error:
            done(f"the block cannot be encoded: {error}")
            return
        sequenced = signing_request(self._config.rollup, payload, request.parent, request.derived)
        refusal = self._signed_blocks.decide(sequenced, self.l1_chain.hash_of)
        self._signed_blocks.keep(payload.block_number, payload.block_hash, encoded)
        if refusal is not None:
            self._warn_refused(payload, refusal)
            done(f"not signed: {refusal}")
            return
        self._drop(self._queue.add(payload, done))
        self.periodic_task.wake.set()

    def publish_signed(self, payload: ExecutionPayload, signature: bytes) -> str | None:
        """Publish a block that somebody else has signed; the error if peers would not accept it [RPC65]."""
        try:
            version, part = self._encode(payload)
        except SszError as error:
            return f"failed to encoded execution payload to publish: {error}"
        log.info("publishing a signed block", number=payload.block_number, hash=to_hex(payload.block_hash))
        return self._gossip(payload, version, part, signature)

    async def _step(self) -> float:
        """Sign and publish one block, if there is one."""
        self._drop(self._queue.drop_old(time.time()))
        block = self._queue.next(time.monotonic())
        if block is not None and self._signer is not None and self._signed_blocks is not None:
            await self._signed_blocks.write()
            await self._sign(block, self._signer)
        delay = self._queue.delay(time.monotonic())
        if delay is None:
            self.problem = None
            return IDLE_SECONDS
        return min(delay, AGE_CHECK_SECONDS)

    async def _sign(self, block: WaitingBlock, signer: BlockSigner) -> None:
        payload = block.payload
        version, part = self._encode(payload)
        try:
            signature = await signer.sign_block(self._config.rollup.l2_chain_id, payload_hash(part))
        except SigningError as error:
            self._queue.failed(time.monotonic())
            self.problem = f"blocks are not signed: {error}"
            fields: Fields = {"number": payload.block_number, "error": error, "do": Code.SIGNER_UNREACHABLE.remedy}
            code = Code.SIGNER_UNREACHABLE.text
            self._warnings.warn("signer", "failed to sign a block, retrying", code=code, **fields)
            return
        if self.problem is not None:
            log.info("the signer signs again", number=payload.block_number)
        self._queue.succeeded()
        self.problem = None
        if not self._queue.holds(block):
            return
        self._finish(block, self._gossip(payload, version, part, signature))

    def _encode(self, payload: ExecutionPayload) -> EncodedPayload:
        """Return the part of a block that is signed. Raises SszError when the block lacks a field of its version."""
        version = block_message.version_at(self._config.rollup, payload.timestamp)
        return EncodedPayload(version, block_message.encode_signed_part(payload, version))

    def _warn_refused(self, payload: ExecutionPayload, reason: str) -> None:
        self._warnings.warn(
            "refused",
            "not signing a block, it may be the second one of its height",
            code=Code.BLOCK_NOT_SIGNED.text,
            number=payload.block_number,
            hash=to_hex(payload.block_hash),
            reason=reason,
            advice=REFUSED_ADVICE,
            file=self._config.signed_blocks_path,
        )

    def _drop(self, dropped: Iterable[tuple[WaitingBlock, str]]) -> None:
        for block, reason in dropped:
            number = block.payload.block_number
            text, code = "dropped a block before it was signed", Code.BLOCK_NOT_SIGNED.text
            self._warnings.warn(reason, text, code=code, number=number, reason=reason)
            self._finish(block, reason)

    def _finish(self, block: WaitingBlock, error: str | None) -> None:
        self._queue.remove(block)
        for done in block.done:
            done(error)
        block.done.clear()


MAX_RESPONSES = 64


class UnsafeBlocksServer:
    """`publish` is called while `is_ready`, with a function for its error or None; `on_gap` with head and end of a gap.

    A restarted engine process gets the latest blocks of peers again, and upon its request those that it sequenced: a
    published block that is not in the engine must not be sequenced a second time [SEQ39]."""

    def __init__(
        self,
        bus: Bus,
        publish: Callable[[p2p.PublishRequest, Callable[[str | None], None]], None],
        is_ready: Callable[[], bool],
        on_gap: Callable[[int, p2p.GapEnd], None],
        latest: LatestBlocks,
    ) -> None:
        self._publish, self._is_ready, self._on_gap = publish, is_ready, on_gap
        self._engine: ProcessId | None = None
        self._latest = latest
        self._responses: OrderedDict[int, p2p.PublishResponse] = OrderedDict()
        self._publishing: set[int] = set()
        self.published = 0
        self._server = bus.serve("p2p.blocks", self._on_message)

    def send_block(self, payload: ExecutionPayload) -> None:
        """Send a block of a peer to the engine process."""
        self._latest.add(payload)
        if self._engine is not None:
            self._server.send(self._engine, p2p.UnsafeBlock(payload))

    def _on_message(self, engine: ProcessId, message: Any) -> None:
        if self._engine is None or engine.incarnation > self._engine.incarnation:
            self._engine = engine
            self._responses.clear()
            self._publishing.clear()
            for payload in self._latest.recent:
                self._server.send(engine, p2p.UnsafeBlock(payload))
        elif engine.incarnation < self._engine.incarnation:
            return
        if isinstance(message, p2p.PublishRequest):
            self._publish_block(engine, message)
        elif isinstance(message, p2p.LatestBlocksRequest):
            # Before this process is ready, blocks that it is to take over may wait for it.
            if self._is_ready():
                self._server.send(engine, p2p.LatestBlocksResponse(message.head, self._latest.above(message.head)))
        elif isinstance(message, p2p.UnsafeBlocksRequest) and message.gap_end is not None:
            self._on_gap(message.head, message.gap_end)

    def _publish_block(self, engine: ProcessId, message: p2p.PublishRequest) -> None:
        done = self._responses.get(message.id)
        if done is not None:
            self._server.send(engine, done)
        elif message.id not in self._publishing and self._is_ready():
            self._publishing.add(message.id)
            self._publish(message, lambda error: self._on_published(engine, message.id, error))

    def _on_published(self, engine: ProcessId, number: int, error: str | None) -> None:
        if error is None:
            self.published += 1
        if engine != self._engine:
            return
        self._publishing.discard(number)
        # Responses are kept to answer repeated requests: a block is published once.
        done = self._responses[number] = p2p.PublishResponse(number, error)
        if len(self._responses) > MAX_RESPONSES:
            self._responses.popitem(last=False)
        self._server.send(engine, done)
