"""Dependency sets, and blocks with initiating and executing messages in their logs."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.rounds import NO_L1_BLOCK, ChainBlock
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.interop_messages import (
    EXECUTING_MESSAGE,
    MESSAGE_EXPIRY_WINDOW,
    BlockLogs,
    block_logs,
    log_hash,
)
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.receipts import LogJson
from rollup_node.stages.protocol.types import CROSS_L2_INBOX, BlockId, BlockRef, Hash
from tests.support.chains.chain_fixture import make_rollup

GENESIS_TIME = 1000
ORIGIN = b"\x0a" * 20


def member(chain_id: int, block_time: int = 1, genesis_time: int = GENESIS_TIME, number: int = 0) -> RollupConfig:
    """Return a chain whose genesis is the block `number`."""
    rollup = make_rollup()
    genesis = msgspec.structs.replace(
        rollup.genesis, l2=BlockId(number, keccak256(b"genesis %d" % chain_id)), l2_time=genesis_time
    )
    return msgspec.structs.replace(rollup, l2_chain_id=chain_id, block_time=block_time, genesis=genesis)


def dependency_set(
    *members: RollupConfig, activation: int = GENESIS_TIME, window: int = MESSAGE_EXPIRY_WINDOW
) -> InteropConfig:
    """Return the set of these chains."""
    return InteropConfig({chain.l2_chain_id: chain for chain in members}, activation, window)


class Claim(NamedTuple):
    """What an executing message says: a message by its chain, block, log and time, from `origin` with a payload."""

    chain_id: int
    number: int
    log_index: int
    timestamp: int
    payload: bytes
    origin: bytes = ORIGIN

    @property
    def log_hash(self) -> Hash:
        """The hash of the log that it names."""
        return log_hash(self.origin, keccak256(self.payload))


def plain_log(payload: bytes) -> LogJson:
    """Return a log without topics."""
    return LogJson(to_hex(ORIGIN), [], to_hex(payload))


def claim_data(claim: Claim) -> bytes:
    """Return the data of the log of an executing message."""
    words = (claim.number, claim.log_index, claim.timestamp, claim.chain_id)
    return bytes(12) + claim.origin + b"".join(word.to_bytes(32, "big") for word in words)


def executing_log(claim: Claim) -> LogJson:
    """Return the log with which a message is executed."""
    topics = [to_hex(EXECUTING_MESSAGE), to_hex(keccak256(claim.payload))]
    return LogJson(to_hex(CROSS_L2_INBOX), topics, to_hex(claim_data(claim)))


def block(number: int, timestamp: int, parent: Hash = bytes(32), branch: int = 0) -> BlockRef:
    """Return a block's reference; its hash is of all arguments."""
    content = b"%d %d %d" % (number, timestamp, branch)
    return BlockRef(keccak256(parent + content), number, parent, timestamp)


def logs_of(ref: BlockRef, logs: Sequence[bytes | Claim]) -> BlockLogs:
    """Return the block with these initiating and executing messages."""
    return block_logs(ref, [executing_log(log) if isinstance(log, Claim) else plain_log(log) for log in logs])


def head_of(logs: BlockLogs, l1: BlockId = NO_L1_BLOCK) -> ChainBlock:
    """Return the block as a chain's head, whose roots follow from its number."""
    return ChainBlock(
        logs, keccak256(b"state %d" % logs.block.number), keccak256(b"storage %d" % logs.block.number), l1
    )


def numbered_content(number: int, branch: int = 0) -> ChainBlock:
    """Return a block without logs, whose hash is of its number and branch, on that of branch 0 before."""
    parent = bytes(24) + max(number - 1, 0).to_bytes(8, "big")
    ref = BlockRef(bytes([branch]) * 24 + number.to_bytes(8, "big"), number, parent, 0)
    return ChainBlock(BlockLogs(ref, b"", ()), bytes(32), bytes(32))
