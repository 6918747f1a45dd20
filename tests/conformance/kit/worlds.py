"""The deriver in a made-up world: L2 blocks are planned as a sequencer would, put on L1 by the batcher library, and
what is derived becomes the next safe head."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.pipeline.outputs import (
    Attributes,
    NeedBlobs,
    NeedDecoded,
    NeedL1Block,
    NeedL2Blocks,
    NeedReset,
)
from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Reason, Why
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.attributes import deposits_only, system_config_after
from rollup_node.stages.protocol.config import ChainOpConfig, SystemConfig
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.l1_info import l1_info_of_block
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import (
    Address,
    BlockId,
    Hash,
    InboxTransaction,
    L1Block,
    L2BlockContent,
    L2BlockRef,
    Log,
)
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch, span_batch
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, frames
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    GENESIS_TIME,
    L1,
    L1_BLOCK_TIME,
    L1_CHAIN,
    L2_BLOCK_TIME,
    SYSTEM_CONFIG,
    calldata,
    l1_hash,
    l2_ref,
    rollup,
)

WINDOW = 20
GENESIS = l2_ref(0, BlockId(FIRST_L1, l1_hash(FIRST_L1)))
USER = rlp.encode([b"\x07", b"\x09", b"\x52\x08", b"\x44" * 20, b"\x05", b"", b"\x1b", b"\x11" * 32, b"\x22" * 32])
"""A user's transaction (legacy, v = 27)."""
DEFAULTS: dict[str, Any] = {"seq_window_size": WINDOW, "chain_op_config": ChainOpConfig(6, 50, 250)}


def l1_time(number: int) -> int:
    """When L1 block `number` comes if nothing else is said."""
    return GENESIS_TIME + L1_BLOCK_TIME * (number - FIRST_L1)


def l2_hash(parent: Hash, timestamp: int, origin: BlockId, transactions: Sequence[bytes]) -> Hash:
    """The hash of an L2 block as this world counts."""
    return sha256(repr((parent, timestamp, origin, tuple(transactions))).encode()).digest()


@dataclass(frozen=True)
class Planned:
    """An L2 block that a sequencer made: its reference and its user transactions."""

    ref: L2BlockRef
    transactions: tuple[bytes, ...]

    @property
    def batch(self) -> BatchBlock:
        return BatchBlock(self.ref.parent_hash, self.ref.timestamp, self.ref.l1_origin, self.transactions)

    @property
    def singular(self) -> bytes:
        """The block alone as an encoded batch."""
        return singular_batch(self.batch)


def child(
    parent: L2BlockRef,
    transactions: Sequence[bytes] = (USER,),
    epoch: int | None = None,
    *,
    time: int | None = None,
    epoch_hash: Hash | None = None,
) -> Planned:
    """The block after `parent`. Without `epoch` its origin is the next L1 block as soon as time allows it."""
    timestamp = parent.timestamp + L2_BLOCK_TIME if time is None else time
    if epoch is None:
        epoch = parent.l1_origin.number
        epoch += l1_time(epoch + 1) <= timestamp
    origin = BlockId(epoch, l1_hash(epoch) if epoch_hash is None else epoch_hash)
    sequence = 0 if epoch != parent.l1_origin.number else parent.sequence_number + 1
    key = l2_hash(parent.hash, timestamp, origin, transactions)
    ref = L2BlockRef(key, parent.number + 1, parent.hash, timestamp, origin, sequence)
    return Planned(ref, tuple(transactions))


def plan(parent: L2BlockRef, count: int, transactions: Sequence[bytes] = (USER,)) -> list[Planned]:
    """`count` blocks one after the other."""
    found: list[Planned] = []
    for _ in range(count):
        found.append(child(parent, transactions))
        parent = found[-1].ref
    return found


def span(blocks: Sequence[Planned], parent_epoch: int | None = None) -> bytes:
    """The blocks as one encoded span batch; `parent_epoch` is the L1 origin number before the first."""
    first = blocks[0].ref
    if parent_epoch is None:
        parent_epoch = first.l1_origin.number - (first.sequence_number == 0)
    return span_batch([block.batch for block in blocks], GENESIS_TIME, parent_epoch)


def channel(name: str, *batches: bytes, pieces: int = 1, compression: Compression = Compression.ZLIB) -> list[bytes]:
    """Data items with one frame each of a channel with these batches."""
    body = channel_body(batches, compression)
    size = -(-len(body) // pieces) + 23
    found = [batcher_data([frame]) for frame in frames(channel_id(name), body, size)]
    assert len(found) == pieces
    return found


def channel_id(name: str) -> bytes:
    """The id of a channel with a short name."""
    return name.encode().ljust(16, b".")


class World:
    """State: the L1 chain, the L2 chain as far as it was derived, and everything the deriver said."""

    def __init__(self, forks: Mapping[str, int], *, overlap_check: bool = True, **changes: Any) -> None:
        self.config = rollup(dict(forks), **(DEFAULTS | changes))
        self.deriver = Deriver(self.config, L1_CHAIN, span_overlap_check=overlap_check)
        self.l1 = L1()
        self.l2 = [Derived(GENESIS, (), SYSTEM_CONFIG, None)]
        self.blobs: dict[Hash, bytes | None] = {}
        self.withheld: set[int] = set()
        self.is_invalid: Callable[[PayloadAttributes], bool] = lambda attributes: False
        self.is_refused: Callable[[PayloadAttributes], bool] = lambda attributes: False
        self.dropped: list[Dropped] = []
        self.last: Output | None = None
        self._begin(FIRST_L1, SYSTEM_CONFIG)

    # --- what there is ---------------------------------------------------------------------------------------------

    @property
    def safe(self) -> L2BlockRef:
        """The newest derived block."""
        return self.l2[-1].ref

    @property
    def head(self) -> int:
        """The newest L1 block."""
        return self.l1.last.header.number

    @property
    def reset_reason(self) -> Reason | None:
        """Why the deriver wants a new start, if it does."""
        return self.last.reason if isinstance(self.last, NeedReset) else None

    def said(self, *effects: Effect) -> list[Why]:
        """What was dropped since the last look, and forgets it; only with these effects if some are named."""
        found = [each.reason.why for each in self.dropped if not effects or each.effect in effects]
        self.dropped.clear()
        return found

    def effects(self) -> list[tuple[Effect, Why]]:
        """As `said`, with the effects."""
        found = [(each.effect, each.reason.why) for each in self.dropped]
        self.dropped.clear()
        return found

    # --- L1 --------------------------------------------------------------------------------------------------------

    def mine(
        self,
        *items: bytes,
        time: int | None = None,
        sender: Address = BATCHER,
        updates: Iterable[Log] = (),
        deposits: Iterable[Log] = (),
        inbox: Iterable[InboxTransaction] = (),
    ) -> L1Block:
        """The next L1 block, each item the calldata of a transaction; `time` is in seconds after genesis."""
        block = self.l1.add(*(calldata(item, sender) for item in items), *inbox, updates=tuple(updates), time=time)
        self.l1.blocks[-1] = block = msgspec.structs.replace(block, deposits=tuple(deposits))
        return block

    def mine_until(self, number: int) -> None:
        """Empty L1 blocks up to this one."""
        while self.head < number:
            self.mine()

    # --- derivation ------------------------------------------------------------------------------------------------

    def run(self, most: int | None = None) -> list["Derived"]:
        """Derives until nothing goes on, or until there are `most` more L2 blocks; the new ones."""
        known = len(self.l2)
        for _ in range(200_000):
            if most is not None and len(self.l2) == known + most:
                return self.l2[known:]
            self.last = self.deriver.step(self.safe, self.l2[-1].config)
            if not self._meets(self.last):
                return self.l2[known:]
        raise AssertionError("derivation does not come to rest")

    def reset(self, base: int, config: SystemConfig = SYSTEM_CONFIG, safe: int | None = None) -> None:
        """Starts again at L1 block `base`, on L2 block number `safe` or the newest one."""
        if safe is not None:
            del self.l2[safe + 1 :]
        self._begin(base, config)

    def _begin(self, base: int, config: SystemConfig) -> None:
        self._known = len(self.l2)
        self.deriver.reset(_Start(BlockId(base, self.l1[base].header.hash), config))

    def _meets(self, output: Output) -> bool:
        deriver = self.deriver
        match output:
            case Dropped():
                self.dropped.append(output)
                return True
            case NeedL1Block(number=number):
                return number <= self.head and deriver.add_l1_block(self.l1[number])
            case NeedDecoded(key=key, task=task):
                return deriver.add_decoded(key, tasks.run(task))
            case NeedBlobs(block=block, blobs=blobs):
                contents = [self._blob(blob.hash) for blob in blobs]
                return None not in contents and deriver.add_blobs(block.hash, [each for each in contents if each])
            case NeedL2Blocks(first=first, last=last):
                return deriver.add_l2_blocks(first, last, self._contents(first, last))
            case Attributes():
                self._take(output)
                return True
        return False

    def _blob(self, key: Hash) -> BlobContent | None:
        if key not in self.blobs:
            return None
        data = self.blobs[key]
        return BlobContent(key, data, "made up" if data is None else None)

    def _contents(self, first: int, last: int) -> list[L2BlockContent] | None:
        if self.withheld & set(range(first, last + 1)):
            return None
        return [L2BlockContent(each.ref, each.transactions) for each in self.l2[first : last + 1]]

    def _take(self, output: Attributes) -> None:
        """What an engine would build of the attributes."""
        attributes = output.attributes
        if self.is_refused(attributes):
            self._take_back_pending()
            self.deriver.refused()
            return
        if self.is_invalid(attributes):
            attributes = deposits_only(attributes)
            self.deriver.flush_for_deposits_only()
        parent = output.parent
        info = l1_info_of_block(attributes.transactions, self.config.schedule().l1_info_format(attributes.timestamp))
        users = [each for each in attributes.transactions if not is_deposit(each)]
        key = l2_hash(parent.hash, attributes.timestamp, info.origin, users)
        ref = L2BlockRef(key, parent.number + 1, parent.hash, attributes.timestamp, info.origin, info.sequence_number)
        config = system_config_after(self.config, attributes, ref.number)
        self.l2.append(Derived(ref, attributes.transactions, config, output))

    def _take_back_pending(self) -> None:
        """The engine is at the last block that concluded its batch again."""
        while len(self.l2) > self._known and not self.l2[-1].concluding:
            self.l2.pop()


@dataclass(frozen=True)
class Derived:
    """A block of the safe chain with the system config that stands in it and the attributes it was made of."""

    ref: L2BlockRef
    transactions: tuple[bytes, ...]
    config: SystemConfig
    output: Attributes | None

    @property
    def users(self) -> tuple[bytes, ...]:
        return tuple(each for each in self.transactions if not is_deposit(each))

    @property
    def inclusion(self) -> int:
        """The L1 block it was read at."""
        assert self.output is not None
        return self.output.derived_from.number

    @property
    def concluding(self) -> bool:
        assert self.output is not None
        return self.output.concluding


@dataclass(frozen=True)
class _Start:
    base: BlockId
    base_config: SystemConfig


def refs(blocks: Iterable[Planned | Derived]) -> list[L2BlockRef]:
    """The references of planned or derived blocks."""
    return [block.ref for block in blocks]
