"""The heads to start with, and the base, the L1 block where derivation starts to read.

The heads to start with: a walk from the engine's tip back over its chain, comparing each block's L1 origin with the
canonical L1 chain, until a block is found that no L1 data within the look-back can change [STA1 to STA14].

Contradictions that another endpoint or another try may end are temporary errors, after which a new search is made
[STA15].

The base is the first block of a walk from the safe head back over its parents that is a channel timeout below it, so
that every channel that may still be open is found [RS1, RS2], and with Alt-DA every input that may still be taken out
of the chain [ADA14]. L1 origins never fall from one L2 block to the next and skip no L1 block, so that block is
searched for by number: about ten of the hundreds of blocks are read.
"""

from collections.abc import Generator
from typing import TypeVar

import msgspec

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.calls.engine_api import EngineCall, GetBlockRef, GetBlockRefs, Label
from rollup_node.stages.engine.calls.heads import Heads, L2BlockInfo
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import L1AtSafeHeadRequest
from rollup_node.stages.protocol.config import KECCAK_COMMITMENT, RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

RECOVERY_WINDOWS = 14
MAX_REORG_LOOKBACKS = 5
PREFETCH = 20
"""How many ancestors are read at once."""

T = TypeVar("T")
StartCall = EngineCall | GetL1BlockRef | L1AtSafeHeadRequest
Reads = Generator[StartCall, object, T]
"""Yields the calls that are due, one at a time, and is sent their answers."""


class StartSearchError(TemporaryError):
    """No start can be found: another chain, a reorg that is too deep, a broken chain."""


def expect(answer: object, kind: type[T]) -> T | None:
    """Return an answer of the kind that the call has, None for none. Raises TemporaryError for any other."""
    if answer is not None and not isinstance(answer, kind):
        raise TemporaryError("the answer is not one to the call of the search")
    return answer


def sync_lookback(rollup: RollupConfig) -> int:
    """Return how many L1 blocks may still change what is safe [STA12]."""
    window = rollup.seq_window_size
    return (
        window if rollup.alt_da is None else max(window, rollup.alt_da.challenge_window + rollup.alt_da.resolve_window)
    )


def challenge_lookback(rollup: RollupConfig) -> int:
    """Return for how many L1 blocks a used input can be taken out again [ADA8, ADA10]."""
    alt_da = rollup.alt_da
    if alt_da is None or alt_da.commitment_type != KECCAK_COMMITMENT:
        return 0
    return alt_da.challenge_window + alt_da.resolve_window


class _Labels(msgspec.Struct, frozen=True):
    """The engine's blocks of its labels, that of a lower one where it has none."""

    finalized: L2BlockRef
    safe: L2BlockRef
    latest: L2BlockRef


class StartSearch:
    """One search.

    `skip_check` is `l2.skip-sync-start-check` [STA14]; `offset` is how many blocks behind the tip safe and finalized
    are set where the chain was synced without finality [STA2], and the engine `recovers` so whatever its labels. At
    `verified`, which L1 data cannot change, the walk ends as well, if its origin is canonical [RW3].

    Of the walk, `origin` is the canonical L1 block of the number of its block's origin; `unsafe` the candidate for the
    unsafe head, None until the next lower block; `canonical` the highest block with a canonical origin."""

    def __init__(self, rollup: RollupConfig, skip_check: bool = False, offset: int = 0) -> None:
        self.rollup, self.skip_check, self.offset = rollup, skip_check, offset
        self.lookback = sync_lookback(rollup)
        self.verified: BlockId | None = None
        self.labels: _Labels | None = None
        self.recovers = False
        self._origin: L1BlockRef | None = None
        self._unsafe: L2BlockRef | None = None
        self._canonical: L2BlockRef | None = None
        self._ancestors: dict[Hash, L2BlockRef] = {}

    def run(self) -> Reads[Heads]:
        """Search for the heads. Raises StartSearchError."""
        labels, genesis = (yield from self._read_labels()), self.rollup.genesis
        if _is_behind(labels):
            # An engine that restarts between two answers loses blocks: only labels read in one go are believed.
            labels = yield from self._read_labels()
        self.labels, latest = labels, labels.latest
        fresh = labels.finalized.hash == labels.safe.hash == genesis.l2.hash
        far = latest.l1_origin.number > genesis.l1.number + RECOVERY_WINDOWS * self.rollup.seq_window_size
        if (fresh and far) or _is_behind(labels):
            self.recovers, self.offset = True, min(self.offset, latest.number - genesis.l2.number)
            return (yield from self._behind(latest))
        return (yield from self._walk(labels))

    def shrink(self) -> Reads[Heads | None]:
        """Set safe and finalized half as far behind, as a block is missing [STA2]; None if that is not possible."""
        if self.labels is None or not self.recovers or self.offset == 0:
            return None
        self.offset //= 2
        return (yield from self._behind(self.labels.latest))

    def _read_labels(self) -> Reads[_Labels]:
        finalized = yield from _block("finalized")
        if finalized is None:
            finalized = _present((yield from _block(self.rollup.genesis.l2.number)), "its genesis block")
        safe = yield from _block("safe")
        latest = _present((yield from _block("latest")), "a latest block")
        return _Labels(finalized, safe or finalized, latest)

    def _behind(self, latest: L2BlockRef) -> Reads[Heads]:
        while self.offset:
            block = yield from _block(latest.number - self.offset)
            if block is not None:
                return Heads(latest, block, block, block)
            self.offset //= 2
        return Heads(latest, latest, latest, latest)

    # --- the walk --------------------------------------------------------------------------------------------------

    def _walk(self, labels: _Labels) -> Reads[Heads]:
        at = self._unsafe = labels.latest
        self._origin = expect((yield GetL1BlockRef(at.l1_origin.number, True)), L1BlockRef)
        ready = False  # whether the next parent is safe
        while True:
            self._visit(at, labels)
            canonical = self._canonical
            if at.number <= labels.safe.number and at.sequence_number == 0 and canonical is not None:
                ready = at.l1_origin.number + self.lookback < canonical.l1_origin.number
            if at.number <= labels.finalized.number or (at.id == self.verified and canonical is not None):
                return self._end_at(at, labels)
            if self._may_jump(at, labels.safe):
                following = labels.safe
            else:
                following = yield from self._parent(at)
                if ready:
                    return self._end_at(following, labels)
            if following.l1_origin.number != at.l1_origin.number:
                self._origin = expect((yield GetL1BlockRef(following.l1_origin.number, False)), L1BlockRef)
            at = following

    def _visit(self, at: L2BlockRef, labels: _Labels) -> None:
        """Compare an origin: an invisible one leaves the candidate in place [STA5], another discards it [STA7]."""
        self._check_chain(at, labels.finalized)
        if self._unsafe is None:
            self._unsafe = at
            depth = labels.latest.l1_origin.number - at.l1_origin.number
            if depth > MAX_REORG_LOOKBACKS * self.lookback:
                raise StartSearchError(
                    f"reorg is too deep: back to L2 block {at}, {depth} L1 blocks below the tip {labels.latest}"
                )
        if self._origin is None:
            self._canonical = None
        elif self._origin.hash == at.l1_origin.hash:
            self._canonical = self._canonical or at
        else:
            self._unsafe = self._canonical = None

    def _check_chain(self, at: L2BlockRef, finalized: L2BlockRef) -> None:
        genesis = self.rollup.genesis
        if at.number == genesis.l2.number:
            if at.hash != genesis.l2.hash:
                raise StartSearchError(
                    f"wrong chain: the engine's genesis block is {at}, expected {genesis.l2};"
                    " check the engine's genesis and the network",
                    Code.ENGINE_ANSWER,
                )
            if self._origin is None or self._origin.hash != genesis.l1.hash:
                raise StartSearchError(
                    f"wrong chain: the L1 genesis block is {self._origin or 'missing'}, expected {genesis.l1};"
                    " check the L1 endpoint and the network"
                )
        if at.number == finalized.number and at.hash != finalized.hash:
            raise StartSearchError(f"cannot reorg finalized block: finalized {finalized}, got {at}")

    def _may_jump(self, at: L2BlockRef, safe: L2BlockRef) -> bool:
        """Without the start check the walk goes on at the safe head, once a canonical origin is found [STA14]."""
        canonical = self._canonical
        return self.skip_check and canonical is not None and canonical.hash == at.hash and safe.number < at.number

    def _parent(self, child: L2BlockRef) -> Reads[L2BlockRef]:
        """Return the parent of a block: ancestors are read by number, many at once, and found by their hashes."""
        wanted, last = child.parent_hash, child.number - 1
        if wanted not in self._ancestors:
            refs = yield GetBlockRefs(max(0, last - PREFETCH + 1), last)
            self._ancestors = {ref.hash: ref for ref in refs} if isinstance(refs, tuple) else {}
        block = self._ancestors.get(wanted) or (yield from _block(wanted))
        parent = _present(block, f"block 0x{wanted.hex()}, the parent of {child}")
        self._check_link(parent, child)
        return parent

    def _check_link(self, parent: L2BlockRef, child: L2BlockRef) -> None:
        if parent.l1_origin == child.l1_origin:
            if parent.sequence_number + 1 != child.sequence_number:
                raise StartSearchError(
                    f"L2 blocks {parent} and {child} have the same L1 origin but not consecutive numbers"
                )
            return
        if parent.l1_origin.number + 1 != child.l1_origin.number:
            raise StartSearchError(f"L1 origin of L2 block {child} does not follow that of its parent {parent}")
        if child.sequence_number != 0:
            raise StartSearchError(f"L2 block {child} has a new L1 origin but sequence number {child.sequence_number}")
        origin = self._origin
        canonical = origin is not None and origin.hash == child.l1_origin.hash
        if canonical and origin is not None and origin.parent_hash != parent.l1_origin.hash:
            raise StartSearchError(
                f"parent L2 block {parent} has origin {parent.l1_origin}, which is not the parent of {origin}"
            )

    def _end_at(self, safe: L2BlockRef, labels: _Labels) -> Heads:
        if self._unsafe is None:
            raise StartSearchError(
                f"the L1 origin {safe.l1_origin} of the finalized block {safe} is not on the L1 chain ({self._origin});"
                " check that the L1 endpoint serves the right chain"
            )
        return Heads(self._unsafe, safe, safe, labels.finalized)


def _is_behind(labels: _Labels) -> bool:
    return labels.latest.number < max(labels.finalized.number, labels.safe.number)


def _block(name: int | Label | Hash) -> Reads[L2BlockRef | None]:
    return expect((yield GetBlockRef(name)), L2BlockRef)


def _present(block: L2BlockRef | None, what: str) -> L2BlockRef:
    if block is None:
        raise StartSearchError(f"the engine does not have {what}", Code.ENGINE_ANSWER)
    return block


class Base(msgspec.Struct, frozen=True):
    """The L1 block to start with, and the system config of the L2 block where the walk ended."""

    base: BlockId
    config: SystemConfig


class MissingBlockError(ResetError):
    """The engine lacks a block of the chain below its safe head, or that head."""


class BaseSearch:
    """Needs blocks, one at a time, until the base is found.

    `above` is the lowest known block on the walk, and `below` the number and origin number of a block beneath its end;
    `origin` is that of the block where the walk ends. `look_back` is how many L1 blocks below the safe head's origin
    the base lies at least."""

    def __init__(self, rollup: RollupConfig, safe: L2BlockInfo, look_back: int = 0) -> None:
        self.rollup, self.look_back = rollup, look_back
        self.schedule = rollup.schedule()
        self.safe = safe
        self.found: L2BlockInfo | None = None
        self.reads = 0
        self.steps_by_epoch = False
        self.above, self.below = safe, (rollup.genesis.l2.number, rollup.genesis.l1.number)
        self.depth = self.origin = 0
        self._walk_from(safe)

    def next(self) -> int | Base:
        """Return the number of the L2 block that is needed next, or the result."""
        if self.found is not None:
            return Base(self.found.ref.l1_origin, self.found.config)
        return self._guess()

    def add_block(self, number: int, block: L2BlockInfo | None) -> None:
        """Take the block of `number`, if it is needed. Raises ResetError for a broken chain [RS5]."""
        if number != self.next():
            return
        if block is None or number < self.rollup.genesis.l2.number:
            raise MissingBlockError(f"the engine has no block {number} below its safe head {self.safe.ref}")
        highest = self.above.ref.l1_origin.number
        fits = self.below[1] <= block.ref.l1_origin.number < highest and block.ref.number == number
        if not fits or (number == self._last_of_epoch_below() and block.ref.l1_origin.number != highest - 1):
            raise ResetError(f"block {block.ref} does not fit block {self.above.ref} above it")
        self.reads += 1
        self._take(block)

    def _take(self, block: L2BlockInfo) -> None:
        ref = block.ref
        if self.steps_by_epoch:
            self._walk_from(block)
        elif ref.l1_origin.number > self.origin:
            self.above = block
        elif ref.number < self._last_of_epoch_below() or self.above.ref.l1_origin.number != self.origin + 1:
            self.below = (ref.number, ref.l1_origin.number)
        else:
            self._take_end(block)

    def _take_end(self, block: L2BlockInfo) -> None:
        """With the timeout of the block at which the walk would end, it may go on, or end above it."""
        if self._depth_at(block) < self.depth:
            self.steps_by_epoch = True
            self._walk_from(self.safe)
        else:
            self._walk_from(block)

    def _walk_from(self, block: L2BlockInfo) -> None:
        """Note that the walk has reached this block; it ends `depth` below the safe head."""
        genesis, safe_origin = self.rollup.genesis, self.safe.ref.l1_origin.number
        self.above, self.below = block, (genesis.l2.number, genesis.l1.number)
        self.depth = self._depth_at(block)
        self.origin = max(safe_origin - self.depth, genesis.l1.number)
        if self._is_genesis_epoch(block) or block.ref.l1_origin.number + self.depth <= safe_origin:
            self.found = block

    def _depth_at(self, block: L2BlockInfo) -> int:
        return max(self.schedule.l1(block.origin_time).channel_timeout, self.look_back)

    def _is_genesis_epoch(self, block: L2BlockInfo) -> bool:
        genesis = self.rollup.genesis
        return block.ref.number <= genesis.l2.number or block.ref.l1_origin.number <= genesis.l1.number

    def _last_of_epoch_below(self) -> int:
        return self.above.ref.number - self.above.ref.sequence_number - 1

    def _guess(self) -> int:
        """Return the next block to read: by the distance of the end, every third time in the middle."""
        last = self._last_of_epoch_below()
        above, (number, origin) = self.above.ref, self.below
        if self.steps_by_epoch or above.l1_origin.number <= self.origin + 1:
            return last
        if self.reads % 3 == 2:
            return max(number + 1, (number + last) // 2)
        epochs, blocks = above.l1_origin.number - origin, above.number - number
        guess = number + (2 * (self.origin + 1 - origin) + 1) * blocks // (2 * epochs)
        return min(max(guess, number + 1), last)
