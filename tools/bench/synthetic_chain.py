"""A synthetic OP Stack chain for benchmarks of derivation.

Recorded transactions in blocks of 20, span batches, brotli, L1 blocks every 12 s. All forks up to Jovian are active."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.derivation.codec.batches import RejectedBatch
from rollup_node.stages.derivation.codec.channel_body import read_batches
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import BlockId, Hash, InboxTransaction, L1Block, L1Header, L2BlockRef
from rollup_node.tools.batcher.batches import BatchBlock, span_batch
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, frames

TRANSACTIONS = 20
BLOCKS_PER_SPAN = 120
BLOCK_TIME, L1_BLOCK_TIME = 2, 12
BEACON_GENESIS_TIME = 1_606_824_023
"""That of L1's chain id, Mainnet's: a node checks it."""
GENESIS_SLOT = 13_597_998
L1_GENESIS, GENESIS_TIME = 20_000_000, BEACON_GENESIS_TIME + 12 * GENESIS_SLOT
BATCHER, INBOX = b"\xba" * 20, b"\xff" * 20
MAX_BYTES = 100_000_000
ACTIVE = FORK_NAMES[1 : FORK_NAMES.index("jovian") + 1]


def l1_hash(number: int) -> Hash:
    """Return the hash of an L1 block of the synthetic chain."""
    return keccak256(b"L1" + number.to_bytes(8, "big"))


def l2_hash(number: int) -> Hash:
    """Return the hash of an L2 block of the synthetic chain."""
    return keccak256(b"L2" + number.to_bytes(8, "big"))


def config(before: str | None = None) -> RollupConfig:
    """Return the chain's rollup config.

    OP Mainnet's parameters with a genesis of its own, and all forks active at it, or those before the one named."""
    mainnet = find_network("op-mainnet").config
    system = SystemConfig(BATCHER, bytes(32), b"\x01" + bytes(31), 60_000_000)
    return RollupConfig(
        genesis=Genesis(BlockId(L1_GENESIS, l1_hash(L1_GENESIS)), BlockId(0, l2_hash(0)), GENESIS_TIME, system),
        block_time=BLOCK_TIME,
        max_sequencer_drift=600,
        seq_window_size=3600,
        channel_timeout=300,
        l1_chain_id=1,
        l2_chain_id=10,
        fork_times=dict.fromkeys(FORK_NAMES[1 : FORK_NAMES.index(before)] if before else ACTIVE, 0),
        batch_inbox=INBOX,
        deposit_contract=mainnet.deposit_contract,
        l1_system_config=mainnet.l1_system_config,
        chain_op_config=ChainOpConfig(6, 50, 250),
    )


def origin_number(number: int) -> int:
    """Return the number of an L2 block's L1 origin."""
    return L1_GENESIS + number * BLOCK_TIME // L1_BLOCK_TIME


def l1_header(number: int) -> L1Header:
    """Return the header of an L1 block of the synthetic chain."""
    time = GENESIS_TIME + (number - L1_GENESIS) * L1_BLOCK_TIME
    return L1Header(l1_hash(number), number, l1_hash(number - 1), time, bytes(32), 10**9, 0, bytes(32))


def l2_ref(number: int) -> L2BlockRef:
    """Return the reference of an L2 block of the synthetic chain."""
    origin = origin_number(number)
    first = -(-(origin - L1_GENESIS) * L1_BLOCK_TIME // BLOCK_TIME)
    return L2BlockRef(
        l2_hash(number),
        number,
        l2_hash(number - 1) if number else bytes(32),
        GENESIS_TIME + number * BLOCK_TIME,
        BlockId(origin, l1_hash(origin)),
        number - first,
    )


def real_transactions(channels: Path) -> list[bytes]:
    """Return the transactions of a recorded OP Mainnet channel."""
    body = (channels / "kona_batch.bin").read_bytes()
    rules = SpanRules(10, find_network("op-mainnet").config.genesis.l2_time, BLOCK_TIME)
    result: list[bytes] = []
    for batch in read_batches(body, MAX_BYTES, True, rules):
        if not isinstance(batch, Reason | RejectedBatch):
            result.extend(batch.transactions)
    return result


@dataclass(frozen=True)
class SyntheticChain:
    """L1 blocks that carry the batches of L2 blocks 1 to `blocks`; `at` is their batcher data by L1 number."""

    blocks: int
    bodies: tuple[bytes, ...]
    first_l1: int
    last_l1: int
    at: dict[int, tuple[bytes, ...]]

    def l1_block(self, number: int) -> L1Block:
        """Return the L1 block with a number."""
        inbox = tuple(InboxTransaction(2, BATCHER, data, ()) for data in self.at.get(number, ()))
        return L1Block(l1_header(number), inbox, (), ())


def make(blocks: int, pool: Sequence[bytes], blocks_per_span: int = BLOCKS_PER_SPAN) -> SyntheticChain:
    """Encode the chain from a pool of transactions; each span is in the L1 block after its last origin."""
    bodies: list[bytes] = []
    at: dict[int, tuple[bytes, ...]] = {}
    for first in range(1, blocks + 1, blocks_per_span):
        numbers = range(first, min(first + blocks_per_span, blocks + 1))
        batch = span_batch(list(_batch_blocks(numbers, pool)), GENESIS_TIME, origin_number(first - 1))
        body = channel_body([batch], Compression.BROTLI)
        bodies.append(body)
        pieces = frames(first.to_bytes(16, "big"), body, 120_000)
        at[origin_number(numbers[-1]) + 1] = tuple(batcher_data([piece]) for piece in pieces)
    return SyntheticChain(blocks, tuple(bodies), L1_GENESIS, origin_number(blocks) + 1, at)


def _batch_blocks(numbers: range, pool: Sequence[bytes]) -> Iterator[BatchBlock]:
    for number in numbers:
        start = number * TRANSACTIONS % (len(pool) - TRANSACTIONS)
        ref = l2_ref(number)
        yield BatchBlock(ref.parent_hash, ref.timestamp, ref.l1_origin, tuple(pool[start : start + TRANSACTIONS]))
