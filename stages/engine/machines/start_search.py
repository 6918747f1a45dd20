"""The heads to start with: a walk from the engine's tip back over its chain, comparing each block's L1 origin with the
canonical L1 chain, until a block is found that no L1 data within the look-back can change [STA1 to STA14].

The search needs one thing at a time. Contradictions that another endpoint or another try may end are temporary errors,
after which a new search is made [STA15]."""

import msgspec

from rollup_node.stages.engine.api.engine_api import Label
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.protocol.config import KECCAK_COMMITMENT, RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef

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
    """The canonical L1 block of a number, None if there is none yet."""

    number: int


Need = NeedLabel | NeedGenesis | NeedOffset | NeedParent | NeedOrigin


class StartSearchError(TemporaryError):
    """No start can be found: another chain, a reorg that is too deep, a broken chain."""


def sync_lookback(rollup: RollupConfig) -> int:
    """How many L1 blocks may still change what is safe [STA12]."""
    window = rollup.seq_window_size
    return (
        window if rollup.alt_da is None else max(window, rollup.alt_da.challenge_window + rollup.alt_da.resolve_window)
    )


def challenge_lookback(rollup: RollupConfig) -> int:
    """For how many L1 blocks an input that was used can be taken out of the chain again: both windows of a keccak
    commitment, 0 where nothing is challenged [ADA8, ADA10]."""
    alt_da = rollup.alt_da
    if alt_da is None or alt_da.commitment_type != KECCAK_COMMITMENT:
        return 0
    return alt_da.challenge_window + alt_da.resolve_window


class StartSearch:
    """One search. `skip_check` is `l2.skip-sync-start-check` [STA14]; `offset` is how many blocks behind the tip safe
    and finalized are set where the chain was synced without finality [STA2]. `at` is the block that the walk has
    reached, `origin` the canonical L1 block of its origin's number; `unsafe` the candidate for the unsafe head, None
    until the next lower block; `canonical` the highest block with a canonical origin; `ready`: the next parent is
    safe; `read_again`: the labels contradicted each other, and are read a second time; `recovers`: safe and finalized
    are set behind the tip, whatever the labels."""

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
        self.ready = self.read_again = self.recovers = False
        self.state: Need | Heads = NeedLabel("finalized")

    def next(self) -> Need | Heads:
        """The next need, or the heads to start with."""
        return self.state

    def add_block(self, need: Need, block: L2BlockRef | None) -> None:
        """Takes the engine's block, None if it has none; for another need than the present one it is ignored. Raises
        StartSearchError when the search cannot go on."""
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
        """Takes the canonical L1 block, None if it is not visible yet; for another need than the present one it is
        ignored. Raises StartSearchError when the search cannot go on."""
        if need == self.state and self.at is not None:
            self.origin = origin
            self._visit(self.at)

    def shrink(self) -> bool:
        """The engine lacks a block that a start behind the tip needs: safe and finalized are set half as far behind
        [STA2]. False if they are set at the tip, or where the walk ended."""
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
        """The next block of the walk; its origin is needed unless it is that of the block before."""
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
        if at.number <= finalized.number:
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
                    " check the engine's genesis and the network"
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
        """An origin that is not visible leaves the candidate in place [STA5]; a different one discards it [STA7]."""
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

    def _take_parent(self, need: NeedParent, found: L2BlockRef | None) -> None:
        parent = _present(found, f"block 0x{need.child.parent_hash.hex()}, the parent of {need.child}")
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
        raise StartSearchError(f"the engine does not have {what}")
    return block
