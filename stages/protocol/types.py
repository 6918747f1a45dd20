"""References, headers and logs that every stage speaks of. Hashes are 32 raw bytes, addresses 20."""

from functools import cached_property

import msgspec

Hash = bytes
Address = bytes

ZERO_HASH: Hash = bytes(32)
ZERO_ADDRESS: Address = bytes(20)
U64_MASK = (1 << 64) - 1


class BlockId(msgspec.Struct, frozen=True, array_like=True):
    """A block by number and hash."""

    number: int
    hash: Hash

    def __str__(self) -> str:
        return f"{self.number}:0x{self.hash[:5].hex()}"


class L1BlockRef(msgspec.Struct, frozen=True, array_like=True):
    """An L1 block; `timestamp` in seconds."""

    hash: Hash
    number: int
    parent_hash: Hash
    timestamp: int

    @property
    def id(self) -> BlockId:
        return BlockId(self.number, self.hash)

    def __str__(self) -> str:
        return f"{self.number}:0x{self.hash[:5].hex()}"


class L2BlockRef(msgspec.Struct, frozen=True, array_like=True):
    """An L2 block with its L1 origin and its place in the epoch."""

    hash: Hash
    number: int
    parent_hash: Hash
    timestamp: int
    l1_origin: BlockId
    sequence_number: int

    @property
    def id(self) -> BlockId:
        return BlockId(self.number, self.hash)

    def __str__(self) -> str:
        return f"{self.number}:0x{self.hash[:5].hex()}"


ZERO_L1_REF = L1BlockRef(ZERO_HASH, 0, ZERO_HASH, 0)
ZERO_L2_REF = L2BlockRef(ZERO_HASH, 0, ZERO_HASH, 0, BlockId(0, ZERO_HASH), 0)


class L1Header(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The fields of a verified L1 header that derivation reads. Optional ones are absent before their L1 fork."""

    hash: Hash
    number: int
    parent_hash: Hash
    timestamp: int
    mix_hash: Hash
    base_fee: int
    excess_blob_gas: int | None
    parent_beacon_root: Hash | None

    @cached_property
    def ref(self) -> L1BlockRef:
        return L1BlockRef(self.hash, self.number, self.parent_hash, self.timestamp)


class Log(msgspec.Struct, frozen=True, array_like=True):
    """A log of a successful receipt; `index` counts over the whole L1 block."""

    address: Address
    topics: tuple[bytes, ...]
    data: bytes
    index: int


class BlobRef(msgspec.Struct, frozen=True, array_like=True):
    """A blob by its place among all blobs of its L1 block, and its versioned hash."""

    index: int
    hash: Hash


class InboxTransaction(msgspec.Struct, frozen=True, array_like=True):
    """An L1 transaction to the batch inbox that passed filter rules F1-F3 (derivation-rules 3); the batcher in
    force is compared by derivation alone. `kind` is the transaction type."""

    kind: int
    sender: Address
    data: bytes
    blobs: tuple[BlobRef, ...]


class L1Block(msgspec.Struct, frozen=True, array_like=True):
    """What derivation and the sequencer need of one verified L1 block."""

    header: L1Header
    inbox: tuple[InboxTransaction, ...]
    deposits: tuple[Log, ...]
    config_updates: tuple[Log, ...]

    @property
    def ref(self) -> L1BlockRef:
        return self.header.ref


class L2BlockContent(msgspec.Struct, frozen=True, array_like=True):
    """A block of the local L2 chain, for the overlap rules of span batches (derivation-rules FU7)."""

    ref: L2BlockRef
    transactions: tuple[bytes, ...]
