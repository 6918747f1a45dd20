"""Signs the blocks that the engine process sequenced and has them gossiped, without delaying it [SEQ24, SGN8]."""

import time
from collections.abc import Callable, Iterable

from rollup_node.stages.io.log.lasting_conditions import RepeatedWarnings
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.messages.p2p import PublishRequest
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import BlockSigner, SigningError, payload_hash
from rollup_node.stages.p2p.blocks.ssz import SszError
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

log = get_logger("p2p")


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
        """Signs and publishes one block, if there is one."""
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
