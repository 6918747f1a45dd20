"""The constants of a synthetic rollup, and its L1 chain: a block every 12 seconds, with the data of the test."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_chains import BlobFork, L1Chain
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
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

FIRST_L1 = 1000
GENESIS_TIME = 1_700_000_000
L1_BLOCK_TIME, L2_BLOCK_TIME = 12, 2
L1_CHAIN_ID, L2_CHAIN_ID = 900, 10
SEQUENCING_WINDOW = 20
BATCHER: Address = b"\xba" * 20
STRANGER: Address = b"\x57" * 20
INBOX: Address = b"\xff" * 20
DEPOSIT_CONTRACT: Address = b"\xde" * 20
SYSTEM_CONFIG_CONTRACT: Address = b"\x5c" * 20
L1_CHAIN = L1Chain(L1_CHAIN_ID, "made up", (BlobFork("cancun", 0, 3_338_477),))
SYSTEM_CONFIG = SystemConfig(BATCHER, bytes(32), b"\1" + bytes(31), 30_000_000)
CALLDATA, BLOBS = 2, 3


def forks_until(name: str, **times: int) -> dict[str, int]:
    """All forks up to one from the beginning, and others at seconds after genesis."""
    active = dict.fromkeys(FORK_NAMES[: FORK_NAMES.index(name) + 1], 0)
    return active | {fork: GENESIS_TIME + time for fork, time in times.items()}


def l1_hash(number: int, branch: str = "") -> Hash:
    """Return the hash of an L1 block."""
    return sha256(f"L1 {branch}{number}".encode()).digest()


def l1_time(number: int) -> int:
    """Return the time of L1 block `number`, unless it is added with another."""
    return GENESIS_TIME + L1_BLOCK_TIME * (number - FIRST_L1)


GENESIS = L2BlockRef(sha256(b"L2 0").digest(), 0, bytes(32), GENESIS_TIME, BlockId(FIRST_L1, l1_hash(FIRST_L1)), 0)


def rollup(forks: dict[str, int], **values: Any) -> RollupConfig:
    """Return a rollup's config; `values` take the place of the defaults below."""
    defaults: dict[str, Any] = {
        "genesis": Genesis(GENESIS.l1_origin, GENESIS.id, GENESIS_TIME, SYSTEM_CONFIG),
        "block_time": L2_BLOCK_TIME,
        "max_sequencer_drift": 600,
        "seq_window_size": SEQUENCING_WINDOW,
        "channel_timeout": 300,
        "l1_chain_id": L1_CHAIN_ID,
        "l2_chain_id": L2_CHAIN_ID,
        "fork_times": forks,
        "batch_inbox": INBOX,
        "deposit_contract": DEPOSIT_CONTRACT,
        "l1_system_config": SYSTEM_CONFIG_CONTRACT,
        "chain_op_config": ChainOpConfig(6, 50, 250),
    }
    return RollupConfig(**(defaults | values))


def calldata(data: bytes, sender: Address = BATCHER) -> InboxTransaction:
    """Return a transaction to the inbox."""
    return InboxTransaction(CALLDATA, sender, data, ())


def blobs(hashes: Iterable[Hash], data: bytes = b"", first: int = 0, sender: Address = BATCHER) -> InboxTransaction:
    """Return a transaction to the inbox with blobs, the first of which has index `first` in its block."""
    refs = tuple(BlobRef(index, item) for index, item in enumerate(hashes, start=first))
    return InboxTransaction(BLOBS, sender, data, refs)


class L1Blocks:
    """A chain of L1 blocks; `blocks[0]` is genesis' origin.

    Block n is 12 n seconds after it, unless a time is given."""

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
        updates: Iterable[Log] = (),
        deposits: Iterable[Log] = (),
        time: int | None = None,
        parent: Hash | None = None,
        branch: str = "",
    ) -> L1Block:
        """Add a block with this data in transactions of the batcher. `time` is in seconds after genesis."""
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
            tuple(calldata(item) if isinstance(item, bytes) else item for item in data),
            tuple(deposits),
            tuple(updates),
        )
        self.blocks.append(block)
        return block

    def skip(self, count: int) -> None:
        """Add blocks without data."""
        for _ in range(count):
            self.add()


def batcher_update(address: Address, index: int = 0) -> Log:
    """Return the config log that makes another account the batcher."""
    return config_log(0, abi_words(32, 32, int.from_bytes(address, "big")), index)


def config_log(kind: int, data: bytes, index: int = 0) -> Log:
    """Return a log of the system config contract."""
    return Log(SYSTEM_CONFIG_CONTRACT, (CONFIG_UPDATE_TOPIC, bytes(32), kind.to_bytes(32, "big")), data, index)


def abi_words(*values: int) -> bytes:
    """Integers of 32 bytes each."""
    return b"".join(value.to_bytes(32, "big") for value in values)
