"""The decisions of a supervisor, and the block that replaces one that is invalid [IOP7 to IOP14, IOP24].

| step   | call                                | goes to                                              |
|--------|-------------------------------------|------------------------------------------------------|
| START  | forkchoice at the parent, attributes| SEAL                                                 |
| SEAL   | get the payload                     | INSERT                                               |
| INSERT | new payload                         | a start at the replacement; any error: another start |
"""

import msgspec

from rollup_node.stages.engine.calls.build_api import OTHER, BuildError, commit_error, open_error, seal_error
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer, ForkchoiceUpdate, GetPayload, NewPayload
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.heads.context import CoreContext, HeadRow
from rollup_node.stages.engine.interop.interop import Interop
from rollup_node.stages.engine.safedb.entries import SafeHeadRecorder
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.sealed_blocks import sealed_mismatch
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef


class PromoteCrossUnsafe(msgspec.Struct, frozen=True):
    """A block is verified across chains."""

    block: L2BlockRef


class PromoteCrossSafe(msgspec.Struct, frozen=True):
    """A block is safe across chains with the L1 block `source`."""

    block: L2BlockRef
    source: L1BlockRef


class PromoteFinalized(msgspec.Struct, frozen=True):
    """A block is final across chains."""

    block: L2BlockRef


class ForceStart(msgspec.Struct, frozen=True):
    """Another start, at these heads; None: where the ordinary search finds it."""

    heads: Heads | None


class ProvideL1(msgspec.Struct, frozen=True):
    """The L1 block that derivation may read next."""

    block: L1BlockRef


class Invalidate(msgspec.Struct, frozen=True):
    """A block is invalid across chains; `attributes` are those of its replacement on `parent`."""

    invalidated: L2BlockRef
    parent: L2BlockRef
    attributes: PayloadAttributes


Decision = PromoteCrossUnsafe | PromoteCrossSafe | PromoteFinalized | ForceStart | ProvideL1 | Invalidate


MAX_EARLY = 1000
"""Promotions that are kept while a start is searched for."""


class InteropRow(HeadRow):
    """`_replacing` is the block under replacement, with the payload id and the payload as far as they are known.

    `_number` counts replacements; `_called` is the number of the one that the last call was made for. `_final` is a
    block that becomes final once all safe heads are recorded. `_early` are promotions that wait for the heads of the
    start that the supervisor chose before, each with the number of resets before it."""

    purpose = CallPurpose.REPLACEMENT

    def __init__(self, core: CoreContext, interop: Interop, safe_heads: SafeHeadRecorder) -> None:
        super().__init__(core)
        self._interop, self._safe_heads = interop, safe_heads
        self._replacing: Invalidate | None = None
        self._payload_id: bytes | None = None
        self._payload: ExecutionPayload | None = None
        self._final: PromoteFinalized | None = None
        self._early: list[tuple[Decision, int]] = []
        self._resets = self._final_resets = self._number = self._called = 0

    def decide(self, decision: Decision, now: Instant, reset_count: int) -> None:
        """Apply a decision for which blocks were read after so many resets; a promotion once there are heads.

        Ignored are blocks that were read before a reset [IOP28]: they may be of another chain, and the supervisor has
        gone on from the start that it chose."""
        core, heads = self._core, self._core.confirmed_heads
        if reset_count != core.reset_count and not isinstance(decision, ForceStart | ProvideL1):
            return
        if heads is None and isinstance(decision, PromoteCrossUnsafe | PromoteCrossSafe | PromoteFinalized):
            if len(self._early) < MAX_EARLY:
                self._early.append((decision, reset_count))
            return
        match decision:
            case ProvideL1(block=block):
                self._interop.provided_l1 = block
            case ForceStart(heads=wanted):
                self._replacing = None
                self._early.clear()
                core.force_start(wanted, now)
            case Invalidate():
                self._replacing, self._payload_id, self._payload = decision, None, None
                self._resets, self._number = core.reset_count, self._number + 1
            case PromoteCrossUnsafe(block=block) if heads is not None:
                core.controller.promote_cross(None, block)
            case PromoteCrossSafe(block=block, source=source) if heads is not None:
                self._promote_safe(heads.verified_safe, block, source)
            case PromoteFinalized() if heads is not None:
                self._final, self._final_resets = decision, core.reset_count
                self.finalize_due(now)
        core.publish(now)

    def _promote_safe(self, verified: L2BlockRef, block: L2BlockRef, source: L1BlockRef) -> None:
        """Promote a safe block.

        An older promotion is ignored: recorded, it would delete what came after it [SDB11, SDB14]."""
        last = self._safe_heads.last_l1
        if block.number < verified.number or (last is not None and source.number < last):
            return
        if block != verified:
            self._core.controller.promote_cross(block, None)
        # The engine refuses another block of the same height, and the reset that follows decides between the two.
        if block == verified or block.number > verified.number:
            self._safe_heads.note_safe(block, source)

    def promote_due(self, now: Instant) -> None:
        """Apply the promotions that came before the heads.

        The supervisor repeats none, and a safe head that is not recorded would make the record wrong [SDB2]."""
        if self._early and self._core.confirmed_heads is not None:
            early, self._early = self._early, []
            for decision, reset_count in early:
                self.decide(decision, now, reset_count)

    def finalize_due(self, now: Instant) -> None:
        """Finalize the block that the supervisor has named, once all safe heads are recorded [SDB13].

        A reset ends it."""
        core, final = self._core, self._final
        if final is None or (self._safe_heads.pending and self._final_resets == core.reset_count):
            return
        self._final = None
        if self._final_resets == core.reset_count:
            core.controller.finalize(final.block)
            core.publish(now)

    # --- replacement -----------------------------------------------------------------------------------------------

    def due(self, now: Instant) -> CoreCall | None:
        """Return the next call for the replacement, while no derived block is being built.

        A reset ends it. The caller makes each call that is returned."""
        core, heads, replacing = self._core, self._core.confirmed_heads, self._replacing
        if replacing is None or heads is None or core.building_derived:
            return None
        if self._resets != core.reset_count:
            self._replacing = None
            return None
        if core.waits(self.purpose, now):
            return None
        self._called = self._number
        if self._payload is not None:
            return NewPayload(self._payload)
        if self._payload_id is not None:
            return GetPayload(self._payload_id, replacing.attributes.timestamp)
        forkchoice = Forkchoice(replacing.parent.hash, heads.verified_safe.hash, heads.finalized.hash)
        return ForkchoiceUpdate(forkchoice, replacing.attributes)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the answer to a call; one of a replacement whose place another has taken is ignored.

        Raises ResetError when the block cannot be replaced."""
        replacing = self._replacing
        if replacing is None or self._called != self._number:
            return
        if isinstance(pending.call, ForkchoiceUpdate):
            error = open_error(answer)
            self._payload_id = answer.payload_id if isinstance(answer, ForkchoiceAnswer) else None
        elif isinstance(pending.call, GetPayload):
            self._payload = answer if isinstance(answer, ExecutionPayload) else None
            error = seal_error(answer, "seal") if self._payload is None else self._mismatch(replacing, self._payload)
        else:
            error = commit_error(answer)
        if error is not None:
            self._replacing = None
            contradicts = isinstance(pending.call, GetPayload) and self._payload is not None
            text = f"block {replacing.invalidated} cannot be replaced: {error.text}"
            raise ResetError(text, Code.ENGINE_CONTRADICTS if contradicts else None)
        if isinstance(pending.call, NewPayload):
            self._replaced(replacing, pending.call.payload, now)

    def _mismatch(self, replacing: Invalidate, payload: ExecutionPayload) -> BuildError | None:
        mismatch = sealed_mismatch(self._core.config.rollup, replacing.attributes, replacing.parent, payload)
        return None if mismatch is None else BuildError(OTHER, mismatch.text)

    def _replaced(self, replacing: Invalidate, payload: ExecutionPayload, now: Instant) -> None:
        core, heads = self._core, self._core.controller.heads
        self._replacing = None
        try:
            ref = l2_ref_of_payload(core.config.rollup, payload)
        except BlockError as error:
            raise ResetError(f"the replacement cannot be read: {error}") from None
        if heads is None:
            return
        core.recover(self.purpose)
        core.force_start(Heads(ref, ref, ref, heads.finalized, ref, ref), now)
        self._interop.replaced(ref, replacing.invalidated.hash, now.monotonic)
