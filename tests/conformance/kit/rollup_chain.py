"""The deriver on a synthetic chain: it derives the test's L1 data, and each derived block becomes the safe head."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.pipeline.batch_attributes import is_predicted
from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded, NeedL1Block, NeedL2Blocks, NeedReset
from rollup_node.stages.derivation.reasons.reason import AnyKind, Dropped, Reason
from rollup_node.stages.engine.calls.heads import L2BlockInfo
from rollup_node.stages.engine.starts.start_search import Base, BaseSearch
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.attributes import deposits_only, system_config_after
from rollup_node.stages.protocol.config import SystemConfig
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
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    GENESIS,
    L1_CHAIN,
    SYSTEM_CONFIG,
    L1Blocks,
    calldata,
    rollup,
)
from tests.conformance.kit.planning import Planned, l2_hash


@dataclass(frozen=True)
class DerivedBlock:
    """A block of the safe chain with the system config that it carries and the attributes that it was built from."""

    ref: L2BlockRef
    transactions: tuple[bytes, ...]
    config: SystemConfig
    output: AttributesReady | None

    @property
    def users(self) -> tuple[bytes, ...]:
        return tuple(transaction for transaction in self.transactions if not is_deposit(transaction))

    @property
    def inclusion(self) -> int:
        """The number of the L1 block that it was derived from."""
        assert self.output is not None
        return self.output.derived_from.number

    @property
    def concluding(self) -> bool:
        assert self.output is not None
        return self.output.concluding


class RollupChain:
    """State: the L1 chain, the L2 chain as far as it is derived, and everything that the deriver put out.

    `withheld` are numbers of L2 blocks that are unavailable; the engine finds attributes invalid or refuses them as
    the two callables say. Up to `depth` blocks are derived ahead of each, and must be the same when it is their
    turn."""

    def __init__(self, forks: Mapping[str, int], *, overlap_check: bool = True, **changes: Any) -> None:
        self.config = rollup(dict(forks), **changes)
        self.deriver = Deriver(self.config, L1_CHAIN, span_overlap_check=overlap_check)
        self.l1 = L1Blocks()
        self.l2 = [DerivedBlock(GENESIS, (), SYSTEM_CONFIG, None)]
        self.blobs: dict[Hash, bytes | None] = {}
        self.withheld: set[int] = set()
        self.is_invalid: Callable[[PayloadAttributes], bool] = lambda attributes: False
        self.is_refused: Callable[[PayloadAttributes], bool] = lambda attributes: False
        self.dropped: list[Dropped] = []
        self.last_output: Output | None = None
        self.depth = 1_000
        self._ahead: deque[AttributesReady] = deque()
        self._begin(FIRST_L1, SYSTEM_CONFIG)

    @property
    def safe(self) -> L2BlockRef:
        """The safe head: the newest derived block."""
        return self.l2[-1].ref

    @property
    def head(self) -> int:
        """The number of the newest L1 block."""
        return self.l1.last.header.number

    @property
    def reset_reason(self) -> Reason | None:
        """Why the deriver needs a reset, if it does."""
        return self.last_output.reason if isinstance(self.last_output, NeedReset) else None

    def take_reasons(self, *effects: DropEffect) -> list[AnyKind]:
        """Return the reasons of what was dropped since the last call, or only of drops with these effects."""
        reasons = [item.reason.kind for item in self.dropped if not effects or item.effect in effects]
        self.dropped.clear()
        return reasons

    def take_drops(self) -> list[tuple[DropEffect, AnyKind]]:
        """Effects and reasons of what was dropped since the last call."""
        drops = [(item.effect, item.reason.kind) for item in self.dropped]
        self.dropped.clear()
        return drops

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
        """Return the next L1 block, each item the calldata of a transaction; `time` is in seconds after genesis."""
        transactions = [calldata(item, sender) for item in items]
        return self.l1.add(*transactions, *inbox, updates=updates, deposits=deposits, time=time)

    def mine_until(self, number: int) -> None:
        """L1 blocks without data up to this number."""
        while self.head < number:
            self.mine()

    # --- L2 --------------------------------------------------------------------------------------------------------

    def extend(self, blocks: Iterable[Planned]) -> None:
        """Add blocks to the safe chain before derivation starts."""
        for block in blocks:
            self.l2.append(DerivedBlock(block.ref, (b"\x7e\xc0", *block.transactions), SYSTEM_CONFIG, None))
        self._known = len(self.l2)

    # --- derivation ------------------------------------------------------------------------------------------------

    def run(self, most: int | None = None, until: Callable[[Output], bool] | None = None) -> list[DerivedBlock]:
        """Derive until the deriver waits, until there are `most` more L2 blocks, or up to an output (which is not
        handled); the new blocks."""
        known = len(self.l2)
        for _ in range(200_000):
            if most is not None and len(self.l2) == known + most:
                return self.l2[known:]
            self.last_output = self.deriver.step(self.safe, self.l2[-1].config)
            if (until is not None and until(self.last_output)) or not self._handle(self.last_output):
                return self.l2[known:]
        raise AssertionError("derivation does not come to rest")

    def base_at(self, safe: int, look_back: int = 0) -> Base:
        """Return what the engine finds for a start on L2 block number `safe`."""
        return finish(BaseSearch(self.config, self._info(safe), look_back), self._info)

    def _info(self, number: int) -> L2BlockInfo:
        block = self.l2[number]
        return L2BlockInfo(block.ref, self.l1[block.ref.l1_origin.number].header.timestamp, block.config)

    def reset(self, base: int, config: SystemConfig = SYSTEM_CONFIG, safe: int | None = None) -> None:
        """Start again at L1 block `base`, on L2 block number `safe` or the newest one."""
        if safe is not None:
            del self.l2[safe + 1 :]
        self._begin(base, config)

    def _begin(self, base: int, config: SystemConfig) -> None:
        self._known = len(self.l2)
        self._ahead.clear()
        self.deriver.reset(BlockId(base, self.l1[base].header.hash), config)

    def _handle(self, output: Output) -> bool:
        deriver = self.deriver
        assert not self._ahead or isinstance(output, AttributesReady | Dropped), (output, self._ahead[0])
        match output:
            case Dropped():
                self.dropped.append(output)
                return True
            case NeedL1Block(number=number):
                return number <= self.head and deriver.add_l1_block(self.l1[number])
            case NeedDecoded(key=key, task=task):
                return deriver.add_decoded(key, tasks.run(task))
            case NeedBlobs(block=block, blobs=blobs):
                contents = [self.blob(blob.hash) for blob in blobs]
                return None not in contents and deriver.add_blobs(
                    block.hash, [content for content in contents if content]
                )
            case NeedL2Blocks(first=first, last=last):
                return deriver.add_l2_blocks(first, last, self._contents(first, last))
            case AttributesReady():
                self._build(output)
                return True
        return False

    def blob(self, key: Hash) -> BlobContent | None:
        """Return the content of a blob; None if no source has it."""
        if key not in self.blobs:
            return None
        data = self.blobs[key]
        return BlobContent(key, data, "made up" if data is None else None)

    def _contents(self, first: int, last: int) -> list[L2BlockContent] | None:
        if self.withheld & set(range(first, last + 1)):
            return None
        return [L2BlockContent(item.ref, item.transactions) for item in self.l2[first : last + 1]]

    def _build(self, output: AttributesReady) -> None:
        """The block that an engine builds from the attributes."""
        attributes = output.attributes
        self._look_ahead(output)
        if self.is_refused(attributes):
            self._ahead.clear()
            self._remove_pending()
            self.deriver.attributes_refused()
            return
        if self.is_invalid(attributes):
            attributes = deposits_only(attributes)
            self._ahead.clear()
            self.deriver.flush_for_deposits_only()
        parent = output.parent
        info = l1_info_of_block(attributes.transactions, self.config.schedule().l1_info_format(attributes.timestamp))
        users = [transaction for transaction in attributes.transactions if not is_deposit(transaction)]
        key = l2_hash(parent.hash, attributes.timestamp, info.origin, users)
        ref = L2BlockRef(key, parent.number + 1, parent.hash, attributes.timestamp, info.origin, info.sequence_number)
        config = system_config_after(self.config, attributes, ref.number)
        self.l2.append(DerivedBlock(ref, attributes.transactions, config, output))

    def _look_ahead(self, output: AttributesReady) -> None:
        if self._ahead:
            ahead, last = self._ahead.popleft(), self.l2[-1]
            assert is_predicted(ahead.parent, output.parent) and ahead.parent_config == last.config
            assert output == msgspec.structs.replace(ahead, parent=output.parent, parent_config=None)
        while len(self._ahead) < self.depth and (result := self.deriver.ahead()) is not None:
            self._ahead.append(result)

    def _remove_pending(self) -> None:
        """The engine goes back to the last block that concluded its batch."""
        while len(self.l2) > self._known and not self.l2[-1].concluding:
            self.l2.pop()


def finish(search: BaseSearch, known: Callable[[int], L2BlockInfo]) -> Base:
    """Return the result of a search that reads these blocks."""
    while isinstance(need := search.next(), int):
        search.add_block(need, known(need))
    return need
