"""What a supervisor decides, applied to the heads, and the block that replaces one that it has found invalid [IOP7 to
IOP14, IOP24]:

| step   | call                                | goes to                                              |
|--------|-------------------------------------|------------------------------------------------------|
| START  | forkchoice at the parent, attributes| SEAL                                                 |
| SEAL   | get the payload                     | INSERT                                               |
| INSERT | new payload                         | a start at the replacement; any error: another start |
"""

import msgspec

from rollup_node.stages.engine.api.build_api import OTHER, BuildError, commit_error, open_error, seal_error
from rollup_node.stages.engine.api.engine_api import ForkchoiceAnswer, ForkchoiceUpdate, GetPayload, NewPayload
from rollup_node.stages.engine.api.heads import Forkchoice, Heads
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, PendingCall, Work
from rollup_node.stages.engine.core.interop import OrdinarySearch
from rollup_node.stages.engine.core.state import CoreState
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


class SupervisorCalls:
    """`_replacing` is the block under replacement, with the payload id and the payload as far as they are known.
    `_number` counts replacements; `_called` is the number of the one that the last call was made for. `_final` is a
    block that becomes final once all safe heads are recorded. `_early` are promotions that wait for the heads of the
    start that the supervisor chose before, with their epochs."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._replacing: Invalidate | None = None
        self._payload_id: bytes | None = None
        self._payload: ExecutionPayload | None = None
        self._final: PromoteFinalized | None = None
        self._early: list[tuple[Decision, int]] = []
        self._epoch = self._final_epoch = self._number = self._called = 0

    def decide(self, decision: Decision, now: Instant, epoch: int) -> None:
        """Applies a decision for which blocks were read from that epoch on; a promotion once there are heads. Ignored
        are blocks that were read before a reset [IOP28]: they may be of another chain, and the supervisor has gone on
        from the start that it chose."""
        state, heads = self._state, self._state.confirmed_heads
        if epoch != state.epoch and not isinstance(decision, ForceStart | ProvideL1):
            return
        if heads is None and isinstance(decision, PromoteCrossUnsafe | PromoteCrossSafe | PromoteFinalized):
            if len(self._early) < MAX_EARLY:
                self._early.append((decision, epoch))
            return
        match decision:
            case ProvideL1(block=block):
                state.interop.provided_l1 = block
            case ForceStart(heads=wanted):
                self._replacing = None
                self._early.clear()
                state.force_start(OrdinarySearch() if wanted is None else wanted, now)
            case Invalidate():
                self._replacing, self._payload_id, self._payload = decision, None, None
                self._epoch, self._number = state.epoch, self._number + 1
            case PromoteCrossUnsafe(block=block) if heads is not None:
                state.controller.promote_cross(None, block)
            case PromoteCrossSafe(block=block, source=source) if heads is not None:
                self._promote_safe(heads.verified_safe, block, source)
            case PromoteFinalized() if heads is not None:
                self._final, self._final_epoch = decision, state.epoch
                self.finalize_due(now)
        state.publish(now)

    def _promote_safe(self, verified: L2BlockRef, block: L2BlockRef, source: L1BlockRef) -> None:
        """Ignores an older promotion: recorded, it would delete what came after it [SDB11, SDB14]."""
        state, last = self._state, self._state.safe_heads.last_l1
        if block.number < verified.number or (last is not None and source.number < last):
            return
        if block != verified:
            state.controller.promote_cross(block, None)
        # The engine refuses another block of the same height, and the reset that follows decides between the two.
        if block == verified or block.number > verified.number:
            state.safe_heads.note_safe(block, source)

    def promote_due(self, now: Instant) -> None:
        """Applies the promotions that came before the heads. The supervisor repeats none, and a safe head that is not
        recorded would make the record wrong [SDB2]."""
        if self._early and self._state.confirmed_heads is not None:
            early, self._early = self._early, []
            for decision, epoch in early:
                self.decide(decision, now, epoch)

    def finalize_due(self, now: Instant) -> None:
        """Finalizes the block that the supervisor has named, once all safe heads are recorded [SDB13]. A reset ends
        it."""
        state, final = self._state, self._final
        if final is None or (state.safe_heads.pending and self._final_epoch == state.epoch):
            return
        self._final = None
        if self._final_epoch == state.epoch:
            state.controller.finalize(final.block)
            state.publish(now)

    # --- replacement -----------------------------------------------------------------------------------------------

    def due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The next call for the replacement, while no derived block is being built. A reset ends it. The caller makes
        each call that is returned."""
        state, heads, replacing = self._state, self._state.confirmed_heads, self._replacing
        if replacing is None or heads is None or state.attributes.building:
            return None
        if self._epoch != state.epoch:
            self._replacing = None
            return None
        if state.backoff.is_waiting(Work.REPLACEMENT.task, now.monotonic):
            return None
        self._called = self._number
        if self._payload is not None:
            return Work.REPLACEMENT, NewPayload(self._payload)
        if self._payload_id is not None:
            return Work.REPLACEMENT, GetPayload(self._payload_id, replacing.attributes.timestamp)
        forkchoice = Forkchoice(replacing.parent.hash, heads.verified_safe.hash, heads.finalized.hash)
        return Work.REPLACEMENT, ForkchoiceUpdate(forkchoice, replacing.attributes)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to a call; one of a replacement whose place another has taken is ignored. Raises ResetError
        when the block cannot be replaced."""
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
        found = sealed_mismatch(self._state.config.rollup, replacing.attributes, replacing.parent, payload)
        return None if found is None else BuildError(OTHER, found.text)

    def _replaced(self, replacing: Invalidate, payload: ExecutionPayload, now: Instant) -> None:
        state, heads = self._state, self._state.controller.heads
        self._replacing = None
        try:
            ref = l2_ref_of_payload(state.config.rollup, payload)
        except BlockError as error:
            raise ResetError(f"the replacement cannot be read: {error}") from None
        if heads is None:
            return
        state.recover(Work.REPLACEMENT.task)
        state.force_start(Heads(ref, ref, ref, heads.finalized, ref, ref), now)
        state.interop.replaced(ref, replacing.invalidated.hash, now.monotonic)
