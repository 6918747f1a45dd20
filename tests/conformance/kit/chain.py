"""A rollup and its two chains, made up: L1 blocks with what the batcher put into them, L2 blocks that are known by
number, and the batches that speak of them."""

import struct
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_chains import BlobFork, L1Chain
from rollup_node.stages.protocol.types import (
    Address,
    BlobRef,
    BlockId,
    Hash,
    InboxTransaction,
    L1Block,
    L1Header,
    L2BlockRef,
    Log,
)
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch, span_batch
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, frames

FIRST_L1 = 1000
GENESIS_TIME = 1_700_000_000
L1_BLOCK_TIME, L2_BLOCK_TIME = 12, 2
L1_CHAIN_ID, L2_CHAIN_ID = 900, 10
BATCHER: Address = b"\xba" * 20
STRANGER: Address = b"\x57" * 20
INBOX: Address = b"\xff" * 20
SYSTEM_CONFIG_CONTRACT: Address = b"\x5c" * 20
L1_CHAIN = L1Chain(L1_CHAIN_ID, "made up", (BlobFork("cancun", 0, 3_338_477),))
SYSTEM_CONFIG = SystemConfig(BATCHER, bytes(32), b"\1" + bytes(31), 30_000_000)
CALLDATA, BLOBS = 2, 3


def forks_until(name: str, **times: int) -> dict[str, int]:
    """All forks up to one from the beginning, and others at seconds after genesis."""
    active = dict.fromkeys(FORK_NAMES[: FORK_NAMES.index(name) + 1], 0)
    return active | {fork: GENESIS_TIME + time for fork, time in times.items()}


def l1_hash(number: int, branch: str = "") -> Hash:
    """The hash of an L1 block."""
    return sha256(f"L1 {branch}{number}".encode()).digest()


def l2_hash(number: int) -> Hash:
    """The hash of an L2 block."""
    return sha256(f"L2 {number}".encode()).digest()


def rollup(forks: dict[str, int], **values: Any) -> RollupConfig:
    """A rollup's config; `values` take the place of the defaults below."""
    genesis = Genesis(BlockId(FIRST_L1, l1_hash(FIRST_L1)), BlockId(0, l2_hash(0)), GENESIS_TIME, SYSTEM_CONFIG)
    defaults: dict[str, Any] = {
        "genesis": genesis,
        "block_time": L2_BLOCK_TIME,
        "max_sequencer_drift": 600,
        "seq_window_size": 3600,
        "channel_timeout": 300,
        "l1_chain_id": L1_CHAIN_ID,
        "l2_chain_id": L2_CHAIN_ID,
        "fork_times": forks,
        "batch_inbox": INBOX,
        "deposit_contract": b"\xde" * 20,
        "l1_system_config": SYSTEM_CONFIG_CONTRACT,
    }
    return RollupConfig(**(defaults | values))


def calldata(data: bytes, sender: Address = BATCHER, kind: int = CALLDATA) -> InboxTransaction:
    """A transaction to the inbox."""
    return InboxTransaction(kind, sender, data, ())


def blobs(hashes: Iterable[Hash], data: bytes = b"", first: int = 0, sender: Address = BATCHER) -> InboxTransaction:
    """A transaction to the inbox with blobs, the first of which has this place in its block."""
    refs = tuple(BlobRef(index, each) for index, each in enumerate(hashes, start=first))
    return InboxTransaction(BLOBS, sender, data, refs)


class L1:
    """A chain of L1 blocks; `blocks[0]` is genesis' origin. Block n is 12 seconds times n after it unless said."""

    def __init__(self) -> None:
        self.blocks: list[L1Block] = []
        self.add()

    def __getitem__(self, number: int) -> L1Block:
        return self.blocks[number - FIRST_L1]

    @property
    def last(self) -> L1Block:
        return self.blocks[-1]

    def add(
        self,
        *data: bytes | InboxTransaction,
        updates: Sequence[Log] = (),
        time: int | None = None,
        parent: Hash | None = None,
        branch: str = "",
    ) -> L1Block:
        """Another block with this data in transactions of the batcher. `time` is in seconds after genesis."""
        number = FIRST_L1 + len(self.blocks)
        seconds = L1_BLOCK_TIME * len(self.blocks) if time is None else time
        block = L1Block(
            L1Header(
                hash=l1_hash(number, branch),
                number=number,
                parent_hash=parent or (self.last.header.hash if self.blocks else bytes(32)),
                timestamp=GENESIS_TIME + seconds,
                mix_hash=sha256(b"mix %d" % number).digest(),
                base_fee=7,
                excess_blob_gas=0,
                parent_beacon_root=bytes(32),
            ),
            tuple(calldata(each) if isinstance(each, bytes) else each for each in data),
            (),
            tuple(updates),
        )
        self.blocks.append(block)
        return block

    def skip(self, count: int) -> None:
        """Blocks with nothing in them."""
        for _ in range(count):
            self.add()

    def epoch(self, number: int) -> BlockId:
        """A block by its distance from genesis' origin."""
        return self.blocks[number].ref.id


def batcher_update(address: Address, index: int = 0) -> Log:
    """The config log that makes another account the batcher."""
    words = (32, 32, int.from_bytes(address, "big"))
    return config_log(0, b"".join(word.to_bytes(32, "big") for word in words), index)


def config_log(kind: int, data: bytes, index: int = 0) -> Log:
    """A log of the system config contract."""
    topic = bytes.fromhex("1d2b0bda21d56b8bd12d4f94ebacffdfb35f5e226f84b461103bb8beab6353be")
    return Log(SYSTEM_CONFIG_CONTRACT, (topic, bytes(32), kind.to_bytes(32, "big")), data, index)


# --- L2 and its batches --------------------------------------------------------------------------------------------


def l2_ref(number: int, origin: BlockId, sequence_number: int = 0) -> L2BlockRef:
    """A reference to an L2 block."""
    time = GENESIS_TIME + L2_BLOCK_TIME * number
    return L2BlockRef(l2_hash(number), number, l2_hash(number - 1), time, origin, sequence_number)


def l2_block(number: int, epoch: BlockId, *transactions: bytes) -> BatchBlock:
    """What batches say of an L2 block."""
    time = GENESIS_TIME + L2_BLOCK_TIME * number
    return BatchBlock(l2_hash(number - 1), time, epoch, transactions)


def singular(number: int, epoch: BlockId, *transactions: bytes) -> bytes:
    """A singular batch for an L2 block, with its type byte."""
    return singular_batch(l2_block(number, epoch, *transactions))


def span(blocks: Sequence[BatchBlock], parent_origin: int = FIRST_L1) -> bytes:
    """A span batch, with its type byte."""
    return span_batch(blocks, GENESIS_TIME, parent_origin)


def channel(
    batches: Iterable[bytes], name: str = "A", compression: Compression = Compression.ZLIB, frame_size: int = 100_000
) -> list[bytes]:
    """A channel with these batches as data items of one frame each."""
    body = channel_body(batches, compression)
    return [batcher_data([frame]) for frame in frames(name.encode() * 16, body, frame_size)]


def transaction(number: int) -> bytes:
    """A user transaction, told from others by its number; derivation does not look into it."""
    return b"\x02" + struct.pack(">Q", number)
