"""The heads to start with, and the base, the L1 block where derivation starts to read.

The heads to start with: a walk from the engine's tip back over its chain, comparing each block's L1 origin with the
canonical L1 chain, until a block is found that no L1 data within the look-back can change [STA1 to STA14].

The search needs one thing at a time. Contradictions that another endpoint or another try may end are temporary errors,
after which a new search is made [STA15].

The base is the first block of a walk from the safe head back over its parents that is a channel timeout below it, so
that every channel that may still be open is found [RS1, RS2], and with Alt-DA every input that may still be taken out
of the chain [ADA14]. L1 origins never fall from one L2 block to the next and skip no L1 block, so that block is
searched for by number: about ten of the hundreds of blocks are read.
"""

import msgspec

from rollup_node.stages.engine.calls.engine_api import Label
from rollup_node.stages.engine.calls.heads import Heads, L2BlockInfo
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import KECCAK_COMMITMENT, RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef

RECOVERY_WINDOWS = 14
MAX_REORG_LOOKBACKS = 5


class NeedLabel(msgspec.Struct, frozen=True):
    """The engine's block of a label, None if it has none."""

    label: Label


class NeedGenesis(msgspec.Struct, frozen=True):
    """The engine's block of the genesis number."""

    number: int


class NeedOffset(msgspec.Struct, frozen=True):
    """The engine's block of a number behind its tip, which safe and finalized are set to."""

    number: int


class NeedParent(msgspec.Struct, frozen=True):
    """The engine's block that is the parent of one."""

    child: L2BlockRef


class NeedOrigin(msgspec.Struct, frozen=True):
    """Return the canonical L1 block of a number, None if there is none yet."""

    number: int


Need = NeedLabel | NeedGenesis | NeedOffset | NeedParent | NeedOrigin


class StartSearchError(TemporaryError):
    """No start can be found: another chain, a reorg that is too deep, a broken chain."""


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


class StartSearch:
    """One search.

    `skip_check` is `l2.skip-sync-start-check` [STA14]; `offset` is how many blocks behind the tip safe and finalized
    are set where the chain was synced without finality [STA2]. `at` is the block that the walk has reached, `origin`
    the canonical L1 block of its origin's number; `unsafe` the candidate for the unsafe head, None until the next lower
    block; `canonical` the highest block with a canonical origin; `ready`: the next parent is safe; `read_again`: the
    labels contradicted each other, and are read a second time; `recovers`: safe and finalized are set behind the tip,
    whatever the labels. At `verified`, which L1 data cannot change, the walk ends as well, if its origin is canonical
    [RW3]."""

    def __init__(self, rollup: RollupConfig, skip_check: bool = False, offset: int = 0) -> None:
        self.rollup, self.offset = rollup, offset
        self.lookback = sync_lookback(rollup)
        self.skip_check = skip_check
        self.finalized: L2BlockRef | None = None
        self.safe: L2BlockRef | None = None
        self.latest: L2BlockRef | None = None
        self.at: L2BlockRef | None = None
        self.origin: L1BlockRef | None = None
        self.unsafe: L2BlockRef | None = None
        self.canonical: L2BlockRef | None = None
        self.verified: BlockId | None = None
        self.ready = self.read_again = self.recovers = False
        self.state: Need | Heads = NeedLabel("finalized")

    def next(self) -> Need | Heads:
        return self.state

    def add_block(self, need: Need, block: L2BlockRef | None) -> None:
        """Take the engine's block for a need; ignored for another one. Raises StartSearchError."""
        if need != self.state:
            return
        if isinstance(need, NeedLabel):
            self._take_label(need.label, block)
        elif isinstance(need, NeedGenesis):
            self.finalized = _present(block, "its genesis block")
            self.state = NeedLabel("safe")
        elif isinstance(need, NeedOffset):
            self._take_offset(block)
        elif isinstance(need, NeedParent):
            self._take_parent(need, block)

    def add_origin(self, need: NeedOrigin, origin: L1BlockRef | None) -> None:
        """Take the canonical L1 block for a need; ignored for another one. Raises StartSearchError."""
        if need == self.state and self.at is not None:
            self.origin = origin
            self._visit(self.at)

    def shrink(self) -> bool:
        """Set safe and finalized half as far behind, as a block is missing [STA2]; False if that is not possible."""
        if not self.recovers or self.offset == 0:
            return False
        self.offset //= 2
        self._go_behind(_present(self.latest, "a latest block"))
        return True

    # --- the engine's labels ---------------------------------------------------------------------------------------

    def _take_label(self, label: Label, block: L2BlockRef | None) -> None:
        if label == "finalized":
            self.finalized = block
            self.state = NeedGenesis(self.rollup.genesis.l2.number) if block is None else NeedLabel("safe")
        elif label == "safe":
            self.safe = block or self.finalized
            self.state = NeedLabel("latest")
        else:
            self.latest = _present(block, "a latest block")
            self._begin_walk(self.latest)

    def _begin_walk(self, latest: L2BlockRef) -> None:
        finalized, safe = self._labels()
        genesis = self.rollup.genesis
        fresh = finalized.hash == safe.hash == genesis.l2.hash
        far = latest.l1_origin.number > genesis.l1.number + RECOVERY_WINDOWS * self.rollup.seq_window_size
        behind = latest.number < max(finalized.number, safe.number)
        if behind and not self.read_again:
            # An engine that restarts between two answers loses blocks: only labels read in one go are believed.
            self.read_again, self.state = True, NeedLabel("finalized")
            return
        if (fresh and far) or behind:
            self.recovers, self.offset = True, min(self.offset, latest.number - genesis.l2.number)
            self._go_behind(latest)
            return
        self.unsafe = latest
        self._go_to(latest)

    def _go_behind(self, latest: L2BlockRef) -> None:
        number = latest.number - self.offset
        self.state = NeedOffset(number) if self.offset else Heads(latest, latest, latest, latest)

    def _take_offset(self, block: L2BlockRef | None) -> None:
        if block is None:
            self.shrink()
        else:
            self.state = Heads(_present(self.latest, "a latest block"), block, block, block)

    # --- the walk --------------------------------------------------------------------------------------------------

    def _go_to(self, block: L2BlockRef) -> None:
        """Go to the next block of the walk; its origin is needed unless it is that of the block before."""
        same = self.at is not None and self.at.l1_origin.number == block.l1_origin.number
        self.at = block
        if same:
            self._visit(block)
        else:
            self.state = NeedOrigin(block.l1_origin.number)

    def _visit(self, at: L2BlockRef) -> None:
        self._check_chain(at)
        if self.unsafe is None:
            self._new_tip(at)
        self._compare(at)
        finalized, safe = self._labels()
        if at.number <= safe.number and at.sequence_number == 0 and self.canonical is not None:
            self.ready = at.l1_origin.number + self.lookback < self.canonical.l1_origin.number
        if at.number <= finalized.number or (at.id == self.verified and self.canonical is not None):
            self._end_at(at)
        elif self._may_jump(at, safe):
            self._go_to(safe)
        else:
            self.state = NeedParent(at)

    def _check_chain(self, at: L2BlockRef) -> None:
        genesis = self.rollup.genesis
        if at.number == genesis.l2.number:
            if at.hash != genesis.l2.hash:
                raise StartSearchError(
                    f"wrong chain: the engine's genesis block is {at}, expected {genesis.l2};"
                    " check the engine's genesis and the network",
                    Code.ENGINE_ANSWER,
                )
            if self.origin is None or self.origin.hash != genesis.l1.hash:
                raise StartSearchError(
                    f"wrong chain: the L1 genesis block is {self.origin or 'missing'}, expected {genesis.l1};"
                    " check the L1 endpoint and the network"
                )
        finalized, _ = self._labels()
        if at.number == finalized.number and at.hash != finalized.hash:
            raise StartSearchError(f"cannot reorg finalized block: finalized {finalized}, got {at}")

    def _new_tip(self, at: L2BlockRef) -> None:
        self.unsafe = at
        depth = _present(self.latest, "a latest block").l1_origin.number - at.l1_origin.number
        if depth > MAX_REORG_LOOKBACKS * self.lookback:
            raise StartSearchError(
                f"reorg is too deep: back to L2 block {at}, {depth} L1 blocks below the tip {self.latest}"
            )

    def _compare(self, at: L2BlockRef) -> None:
        """Compare an origin: an invisible one leaves the candidate in place [STA5], another discards it [STA7]."""
        if self.origin is None:
            self.canonical = None
        elif self.origin.hash == at.l1_origin.hash:
            self.canonical = self.canonical or at
        else:
            self.unsafe = self.canonical = None

    def _may_jump(self, at: L2BlockRef, safe: L2BlockRef) -> bool:
        """Without the start check the walk goes on at the safe head, once a canonical origin is found [STA14]."""
        return (
            self.skip_check
            and self.canonical is not None
            and self.canonical.hash == at.hash
            and safe.number < at.number
        )

    def _take_parent(self, need: NeedParent, block: L2BlockRef | None) -> None:
        parent = _present(block, f"block 0x{need.child.parent_hash.hex()}, the parent of {need.child}")
        self._check_link(parent, need.child)
        if self.ready:
            self._end_at(parent)
        else:
            self._go_to(parent)

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
        origin = self.origin
        canonical = origin is not None and origin.hash == child.l1_origin.hash
        if canonical and origin is not None and origin.parent_hash != parent.l1_origin.hash:
            raise StartSearchError(
                f"parent L2 block {parent} has origin {parent.l1_origin}, which is not the parent of {origin}"
            )

    def _end_at(self, safe: L2BlockRef) -> None:
        finalized, _ = self._labels()
        if self.unsafe is None:
            raise StartSearchError(
                f"the L1 origin {safe.l1_origin} of the finalized block {safe} is not on the L1 chain ({self.origin});"
                " check that the L1 endpoint serves the right chain"
            )
        self.state = Heads(self.unsafe, safe, safe, finalized)

    def _labels(self) -> tuple[L2BlockRef, L2BlockRef]:
        return _present(self.finalized, "a finalized block"), _present(self.safe, "a safe block")


def _present(block: L2BlockRef | None, what: str) -> L2BlockRef:
    if block is None:
        raise StartSearchError(f"the engine does not have {what}", Code.ENGINE_ANSWER)
    return block


class NeedBlock(msgspec.Struct, frozen=True):
    """The canonical L2 block of a number."""

    number: int


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

    def next(self) -> NeedBlock | Base:
        """Return the next need, or the result."""
        if self.found is not None:
            return Base(self.found.ref.l1_origin, self.found.config)
        return NeedBlock(self._guess())

    def add_block(self, number: int, block: L2BlockInfo | None) -> None:
        """Take the block of `number`, if it is needed. Raises ResetError for a broken chain [RS5]."""
        need = self.next()
        if not isinstance(need, NeedBlock) or need.number != number:
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
