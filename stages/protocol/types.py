"""Types that every stage uses, and the fixed accounts [CST10 to CST19]; hashes are 32 raw bytes, addresses 20."""

from functools import cached_property

import msgspec

Hash = bytes
Address = bytes

ZERO_HASH: Hash = bytes(32)
UNKNOWN_HASH: Hash = b"\xff" * 32
"""In place of the hash of an L2 block that is derived but not executed."""
ZERO_ADDRESS: Address = bytes(20)
U64_MASK = (1 << 64) - 1


class BlockId(msgspec.Struct, frozen=True, array_like=True):
    """A block of either chain by number and hash [RPC21]."""

    number: int
    hash: Hash

    def __str__(self) -> str:
        return f"{self.number}:0x{self.hash[:5].hex()}"


class _Ref(msgspec.Struct, frozen=True, array_like=True):
    hash: Hash
    number: int
    parent_hash: Hash
    timestamp: int

    @property
    def id(self) -> BlockId:
        """Number and hash."""
        return BlockId(self.number, self.hash)

    def __str__(self) -> str:
        return str(self.id)


class L1BlockRef(_Ref, frozen=True, array_like=True):
    """A reference of an L1 block; `timestamp` in seconds [RPC21]."""


BlockRef = L1BlockRef
"""The reference of any block without what is special to L2 [IOP21]."""


class L2BlockRef(_Ref, frozen=True, array_like=True):
    """A reference of an L2 block with its L1 origin and its number within the epoch [RPC21, ATT44]."""

    l1_origin: BlockId
    sequence_number: int


ZERO_L1_REF = L1BlockRef(ZERO_HASH, 0, ZERO_HASH, 0)
ZERO_L2_REF = L2BlockRef(ZERO_HASH, 0, ZERO_HASH, 0, BlockId(0, ZERO_HASH), 0)


class L1Header(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The fields of a verified L1 header that derivation reads; the optional ones are absent before their L1 fork."""

    hash: Hash
    number: int
    parent_hash: Hash
    timestamp: int
    mix_hash: Hash
    base_fee: int
    excess_blob_gas: int | None
    parent_beacon_root: Hash | None

    # The instance dict (dict=True) is there for this property alone.
    @cached_property
    def ref(self) -> L1BlockRef:
        return L1BlockRef(self.hash, self.number, self.parent_hash, self.timestamp)


class Log(msgspec.Struct, frozen=True, array_like=True):
    """A log of a successful receipt; `index` counts over the whole L1 block [DEP11]."""

    address: Address
    topics: tuple[bytes, ...]
    data: bytes
    index: int


class ChallengeLog(msgspec.Struct, frozen=True, array_like=True):
    """A log of the DataAvailabilityChallenge contract [ADA5].

    `resolve_data` is the data in the calldata of the transaction that resolved the challenge, None where there is none
    [ADA7]."""

    log: Log
    resolve_data: bytes | None


class BlobRef(msgspec.Struct, frozen=True, array_like=True):
    """A blob by its index among all blobs of its L1 block, and its versioned hash."""

    index: int
    hash: Hash


class MalformedLog(msgspec.Struct, frozen=True):
    """A log of L1 that is skipped: its number in the block, and the text of the first check that it fails."""

    log_index: int
    text: str


class InboxTransaction(msgspec.Struct, frozen=True, array_like=True):
    """An L1 transaction to the batch inbox that passes [BF1, BF2, BF3].

    Derivation compares its sender with the batcher [BF4]. `kind` is the transaction type; `hash` is empty where L1 is
    read without hashes."""

    kind: int
    sender: Address
    data: bytes
    blobs: tuple[BlobRef, ...]
    hash: Hash = b""


HEADER_MEMORY = 900
"""About how many bytes of memory a header takes."""


class L1Block(msgspec.Struct, frozen=True, array_like=True):
    """What derivation and sequencer need of one verified L1 block; `challenges` are empty without Alt-DA."""

    header: L1Header
    inbox: tuple[InboxTransaction, ...]
    deposits: tuple[Log, ...]
    config_updates: tuple[Log, ...]
    challenges: tuple[ChallengeLog, ...] = ()

    @property
    def ref(self) -> L1BlockRef:
        return self.header.ref

    @property
    def memory(self) -> int:
        """About how many bytes of memory the block takes."""
        size = 100 + HEADER_MEMORY
        for transaction in self.inbox:
            size += 400 + len(transaction.data) + 150 * len(transaction.blobs)
        for log in (*self.deposits, *self.config_updates):
            size += 600 + len(log.data)
        for challenge in self.challenges:
            size += 800 + len(challenge.log.data) + len(challenge.resolve_data or b"")
        return size


class L2BlockContent(msgspec.Struct, frozen=True, array_like=True):
    """A block of the local L2 chain, which overlapping span batches are compared with [FU7]."""

    ref: L2BlockRef
    transactions: tuple[bytes, ...]


def predeploy(low: int) -> Address:
    """Return the predeploy 0x42000000000000000000000000000000000000xx, whose last byte is `low`."""
    return b"\x42" + bytes(18) + low.to_bytes(1, "big")


L1_ATTRIBUTES_DEPOSITOR: Address = bytes.fromhex("deaddeaddeaddeaddeaddeaddeaddeaddead0001")
OPTIMISTIC_BLOCK_DEPOSITOR: Address = bytes.fromhex("deaddeaddeaddeaddeaddeaddeaddeaddead0002")
GAS_PRICE_ORACLE = predeploy(0x0F)
SEQUENCER_FEE_VAULT = predeploy(0x11)
L1_BLOCK = predeploy(0x15)
L2_TO_L1_MESSAGE_PASSER = predeploy(0x16)
PROXY_ADMIN = predeploy(0x18)
OPERATOR_FEE_VAULT = predeploy(0x1B)
CROSS_L2_INBOX = predeploy(0x22)
ETH_LIQUIDITY = predeploy(0x25)
CONDITIONAL_DEPLOYER = predeploy(0x2C)
