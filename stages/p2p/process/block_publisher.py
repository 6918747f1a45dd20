"""Signs the blocks that the engine process sequenced and has them gossiped. Nothing here delays the engine process: it
hands a block over and is answered when the block is published or dropped [SEQ24, SGN8]."""

import time
from collections.abc import Callable, Iterable

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.repeated_warnings import RepeatedWarnings
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import BlockSigner, SigningError, payload_hash
from rollup_node.stages.p2p.blocks.ssz import SszError
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.p2p.signer.signed_blocks import BlockRecord, record_of
from rollup_node.stages.p2p.signer.signing_queue import Done, SigningQueue, WaitingBlock
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload

IDLE_SECONDS = 60.0
AGE_CHECK_SECONDS = 1.0
NO_SIGNER = "no key to sign the block with (p2p.sequencer.key or signer.endpoint)"

Gossip = Callable[[ExecutionPayload, int, bytes, bytes], str | None]
"""Publishes a block with version, signed part and signature; returns the error."""

log = get_logger("p2p")


class BlockPublisher:
    """`signer` is None on nodes that do not publish. Blocks are signed one at a time, the newest first."""

    def __init__(
        self, config: P2pConfig, signer: BlockSigner | None, signed_blocks: SignedBlocksFile, gossip: Gossip
    ) -> None:
        self._config, self._signer, self._signed_blocks, self._gossip = config, signer, signed_blocks, gossip
        self._queue = SigningQueue(config.gossip_timestamp_threshold)
        self._warnings = RepeatedWarnings(log)
        self._failure: str | None = None
        self.periodic_task = PeriodicTask("sign blocks", self._step)

    @property
    def problem(self) -> str | None:
        """Why blocks wait for their signature, for /readyz; None when none do."""
        return self._failure

    def publish(self, payload: ExecutionPayload, done: Done) -> None:
        """Takes a block over; `done` is called once with its error, None when it is published."""
        if self._signer is None:
            done(NO_SIGNER)
            return
        self._drop(self._queue.add(payload, done))
        self.periodic_task.wake.set()

    async def _step(self) -> float:
        """Signs and publishes one block, if there is one."""
        self._drop(self._queue.drop_old(time.time()))
        block = self._queue.next(time.monotonic())
        if block is not None and self._signer is not None:
            await self._sign(block, self._signer)
        delay = self._queue.delay(time.monotonic())
        if delay is None:
            self._failure = None
            return IDLE_SECONDS
        return min(delay, AGE_CHECK_SECONDS)

    async def _sign(self, block: WaitingBlock, signer: BlockSigner) -> None:
        payload, config = block.payload, self._config
        version = block_message.version_at(config.rollup, payload.timestamp)
        try:
            part = block_message.encode_signed_part(payload, version)
        except SszError as error:
            self._finish(block, f"the block cannot be encoded: {error}")
            return
        refusing = self._signed_blocks.permit(record_of(config.rollup, payload))
        if refusing is not None:
            self._refuse(block, refusing)
            return
        try:
            signature = await signer.sign_block(config.rollup.l2_chain_id, payload_hash(part))
        except SigningError as error:
            self._queue.failed(time.monotonic())
            self._failure = f"blocks are not signed: {error}"
            self._warnings.warn("signer", "failed to sign a block, retrying", number=payload.block_number, error=error)
            return
        if self._failure is not None:
            log.info("the signer signs again", number=payload.block_number)
        self._queue.succeeded()
        self._failure = None
        self._finish(block, self._gossip(payload, version, part, signature))

    def _refuse(self, block: WaitingBlock, refusing: BlockRecord) -> None:
        """Another block of the height was signed, or the parent was refused for that [SGN10]."""
        self._warnings.warn(
            "refused",
            "not signing a second block for a height, peers keep the first one",
            number=block.payload.block_number,
            hash=to_hex(block.payload.block_hash),
            signed_number=refusing.number,
            other=to_hex(refusing.hash),
            advice="if the chain was rolled back on purpose, remove the file while the node is stopped",
            file=self._config.signed_blocks_path,
        )
        self._finish(block, "another block was signed for its height, or for that of an ancestor")

    def _drop(self, dropped: Iterable[tuple[WaitingBlock, str]]) -> None:
        for block, reason in dropped:
            number = block.payload.block_number
            self._warnings.warn(reason, "dropped a block before it was signed", number=number, reason=reason)
            self._finish(block, reason)

    def _finish(self, block: WaitingBlock, error: str | None) -> None:
        self._queue.remove(block)
        for done in block.done:
            done(error)
        block.done.clear()
