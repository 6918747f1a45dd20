"""The node as an interop supervisor manages it [IOP4, IOP20 to IOP22]: events for it, and what it decides.

Everything is off unless `interop.rpc.addr` is given.

Two events are needs, a start and the next L1 block. They are sent again until they are met [IOP29]: the interop
supervisor may not be connected, may fail, or may not have the L1 block yet.

What the interop supervisor decides is state here, applied by the core: the start, once per reset; the L1 block that
derivation may read next, in the published status; which blocks are safe, unsafe and final across chains, in the
heads."""

import math
from collections import deque
from typing import TYPE_CHECKING, Literal

import msgspec

from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.core.rows import HeadRow
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import DerivedPair, InteropEvent, Replacement
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.consolidation import sealed_mismatch
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.forks.schedule import lagoon_from
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockRef, Hash, L1BlockRef, L2BlockRef

if TYPE_CHECKING:
    from rollup_node.stages.engine.core.state import CoreState

MAX_EVENTS = 100
REPEAT_SECONDS = 0.1
TRAVERSAL_REPEAT_SECONDS = 0.5

RESET_SECONDS = 5.0
EXHAUSTED_SECONDS = 3.0
"""Seconds after which a need that the interop supervisor has not met is sent again [IOP29]."""

FIRST_RESET = "cannot continue derivation until Engine has been reset"
"""The error with which op-node's derivation begins [IOP4]."""


def block_ref(ref: L2BlockRef) -> BlockRef:
    """Return the reference without the L1 origin."""
    return BlockRef(ref.hash, ref.number, ref.parent_hash, ref.timestamp)


class Interop:
    """`events` are the last ones with their numbers, which begin after `first`.

    `has_start`: the interop supervisor has chosen a start, with `start_heads`, or has left it to the node [IOP13].
    `provided_l1` is the L1 block that derivation may read next. `_exhausted` is where derivation waits for another
    one."""

    def __init__(self, rollup: RollupConfig, enabled: bool, first: int = 0) -> None:
        self.enabled = enabled
        self.events: deque[tuple[int, InteropEvent]] = deque(maxlen=MAX_EVENTS)
        self.has_start = False
        self.start_heads: Heads | None = None
        self.provided_l1: L1BlockRef | None = None
        self._active_from = lagoon_from(rollup.fork_times)
        self._last_number = first
        self._sent: dict[str, tuple[object, float]] = {}
        self._unsafe: L2BlockRef | None = None
        self._origin: L1BlockRef | None = None
        self._reset_reason = FIRST_RESET
        self._exhausted: DerivedPair | None = None
        self._l1_head: L1BlockRef | None = None

    @property
    def may_start(self) -> bool:
        """Whether a start may be searched for."""
        return not self.enabled or self.has_start

    def is_active(self, timestamp: int) -> bool:
        """Return whether blocks of that time are subject to the interop supervisor."""
        return self.enabled and self._active_from is not None and timestamp >= self._active_from

    # --- events ----------------------------------------------------------------------------------------------------

    def reset(self, reason: str, now: float) -> None:
        """Ask for another start, which the interop supervisor chooses."""
        self.has_start = False
        self.start_heads = self.provided_l1 = self._unsafe = self._origin = self._exhausted = None
        self._reset_reason = reason
        self._send_reset(now)

    def choose_start(self, heads: Heads | None) -> None:
        """Note that the interop supervisor has chosen a start; it provides L1 blocks from there on."""
        self.has_start, self.start_heads, self.provided_l1, self._exhausted = True, heads, None, None

    def on_derivation_start(self) -> None:
        """Note that derivation starts over, and report where it is then."""
        self._exhausted = None

    def on_unsafe(self, ref: L2BlockRef, now: float) -> None:
        """Take the unsafe head, which may have moved."""
        if ref != self._unsafe and self.is_active(ref.timestamp):
            self._send("unsafe", ref.id, REPEAT_SECONDS, InteropEvent(unsafe_block=block_ref(ref)), now)
        self._unsafe = ref

    def on_local_safe(self, ref: L2BlockRef, source: L1BlockRef, now: float) -> None:
        """Note that a block became safe on this chain."""
        if self.is_active(ref.timestamp):
            event = InteropEvent(derivation_update=DerivedPair(source, block_ref(ref)))
            self._send("safe", ref.id, REPEAT_SECONDS, event, now)

    def on_derivation(self, origin: L1BlockRef, idle: bool, last: L2BlockRef, now: float) -> None:
        """Where derivation is: `idle` when it waits for the next L1 block; `last` is the pending safe head."""
        pair = DerivedPair(origin, block_ref(last))
        if origin != self._origin:
            self._origin = origin
            if self.is_active(last.timestamp):
                event = InteropEvent(derivation_update=pair, derivation_origin_update=origin)
                self._send("traversal", origin.id, TRAVERSAL_REPEAT_SECONDS, event, now)
        self._exhausted = pair if idle and self.enabled else None
        self._send_exhausted(now)

    def on_l1_head(self, head: L1BlockRef, now: float) -> None:
        """Take the L1 head: with another one, what the interop supervisor has not met yet is sent again [IOP29]."""
        if head != self._l1_head:
            self._l1_head = head
            self._repeat(now)

    def replaced(self, ref: L2BlockRef, invalidated: Hash, now: float) -> None:
        """Note that an invalidated block was replaced."""
        event = InteropEvent(replace_block=Replacement(block_ref(ref), invalidated))
        self._send("replaced", ref.id, REPEAT_SECONDS, event, now)

    # --- needs -----------------------------------------------------------------------------------------------------

    @property
    def repeat_at(self) -> float | None:
        """When a need is sent again by time alone, in the past before it is sent first; None while there is none."""
        if not self.may_start:
            return self._sent_at("reset") + RESET_SECONDS
        return self._sent_at("exhausted") + EXHAUSTED_SECONDS if self._needs_l1 else None

    def repeat_due(self, now: float) -> None:
        """Send a need again, if it is time to."""
        at = self.repeat_at
        if at is not None and now >= at:
            self._repeat(now)

    @property
    def _needs_l1(self) -> bool:
        exhausted, provided = self._exhausted, self.provided_l1
        return exhausted is not None and (provided is None or provided.number != exhausted.source.number + 1)

    def _repeat(self, now: float) -> None:
        if not self.may_start:
            self._send_reset(now)
        elif self._needs_l1:
            self._send_exhausted(now)

    def _send_reset(self, now: float) -> None:
        self._send("reset", None, REPEAT_SECONDS, InteropEvent(reset=self._reset_reason), now)

    def _send_exhausted(self, now: float) -> None:
        if self._exhausted is not None:
            event = InteropEvent(exhaust_l1=self._exhausted)
            self._send("exhausted", self._exhausted.source.id, TRAVERSAL_REPEAT_SECONDS, event, now)

    def _sent_at(self, kind: str) -> float:
        last = self._sent.get(kind)
        return -math.inf if last is None else last[1]

    def _send(self, kind: str, value: object, repeat: float, event: InteropEvent, now: float) -> None:
        """Queue an event, unless the last one of its kind had the same value and is younger than `repeat` seconds."""
        if not self.enabled:
            return
        last = self._sent.get(kind)
        if last is not None and last[0] == value and now - last[1] <= repeat:
            return
        self._sent[kind] = (value, now)
        self._last_number += 1
        self.events.append((self._last_number, event))


class Promote(msgspec.Struct, frozen=True):
    """A block is verified across chains (`unsafe`), safe with the L1 block `source`, or final."""

    label: Literal["unsafe", "safe", "finalized"]
    block: L2BlockRef
    source: L1BlockRef | None = None


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


Decision = Promote | ForceStart | ProvideL1 | Invalidate


MAX_EARLY = 1000
"""Promotions that are kept while a start is searched for."""


class InteropRow(HeadRow):
    """`_replacing` is the block under replacement, with the payload id and the payload as far as they are known.

    `_called` is the one that the last call was made for. `_final` is a block that becomes final once all safe heads are
    recorded. `_early` are promotions that wait for the heads of the start that the interop supervisor chose before. A
    reset ends all of them."""

    purpose = CallPurpose.REPLACEMENT

    def __init__(self, core: "CoreState") -> None:
        super().__init__(core)
        self._replacing: Invalidate | None = None
        self._payload_id: bytes | None = None
        self._payload: ExecutionPayload | None = None
        self._final: L2BlockRef | None = None
        self._early: list[Promote] = []
        self._called: Invalidate | None = None

    def clear(self) -> None:
        """Drop what was decided: a reset [IOP28]."""
        self._replacing = self._final = None
        self._early = []

    def decide(self, decision: Decision, now: Instant, reset_count: int) -> None:
        """Apply a decision, a promotion once there are heads; void if its blocks were read before a reset [IOP28]."""
        core, heads = self._core, self._core.confirmed_heads
        if reset_count != core.reset_count and not isinstance(decision, ForceStart | ProvideL1):
            return
        if heads is None and isinstance(decision, Promote):
            if len(self._early) < MAX_EARLY:
                self._early.append(decision)
            return
        match decision:
            case ProvideL1(block=block):
                core.interop.provided_l1 = block
            case ForceStart(heads=wanted):
                core.force_start(wanted, now)
            case Invalidate():
                self._replacing, self._payload_id, self._payload = decision, None, None
            case Promote(label="unsafe", block=block):
                core.controller.promote_cross(None, block)
            case Promote(block=block, source=L1BlockRef() as source) if heads is not None:
                self._promote_safe(heads.verified_safe, block, source)
            case Promote(label="finalized", block=block):
                self._final = block
                self.finalize_due(now)
        core.publish(now)

    def _promote_safe(self, verified: L2BlockRef, block: L2BlockRef, source: L1BlockRef) -> None:
        """Promote a safe block; an older promotion would delete what came after it [SDB11, SDB14]."""
        core, last = self._core, self._core.safe_heads.last_l1
        if block.number < verified.number or (last is not None and source.number < last):
            return
        if block != verified:
            core.controller.promote_cross(block, None)
        # The engine refuses another block of the same height, and the reset that follows decides between the two.
        if block == verified or block.number > verified.number:
            core.safe_heads.note_safe(block, source)

    def promote_due(self, now: Instant) -> None:
        """Apply the promotions that came before the heads: the interop supervisor repeats none [SDB2]."""
        if self._early and self._core.confirmed_heads is not None:
            early, self._early = self._early, []
            for decision in early:
                self.decide(decision, now, self._core.reset_count)

    def finalize_due(self, now: Instant) -> None:
        """Finalize the interop supervisor's block once all safe heads are recorded [SDB13]."""
        core, final = self._core, self._final
        if final is not None and core.safe_heads.has(final.number):
            self._final = None
            core.controller.finalize(final)
            core.publish(now)

    # --- replacement -----------------------------------------------------------------------------------------------

    def due(self, now: Instant) -> CoreCall | None:
        """Return the next call for the replacement, which the caller makes."""
        core, heads, replacing = self._core, self._core.confirmed_heads, self._replacing
        if replacing is None or heads is None or core.attributes.building:
            return None
        if core.waits(self.purpose, now):
            return None
        self._called = replacing
        if self._payload is not None:
            return engine_api.NewPayload(self._payload)
        if self._payload_id is not None:
            return engine_api.GetPayload(self._payload_id, replacing.attributes.timestamp)
        forkchoice = Forkchoice(replacing.parent.hash, heads.verified_safe.hash, heads.finalized.hash)
        return engine_api.ForkchoiceUpdate(forkchoice, replacing.attributes)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the answer to a call of this replacement. Raises ResetError when the block cannot be replaced."""
        replacing = self._replacing
        if replacing is None or replacing is not self._called:
            return
        if isinstance(pending.call, engine_api.ForkchoiceUpdate):
            error = engine_api.open_error(answer)
            self._payload_id = answer.payload_id if isinstance(answer, engine_api.ForkchoiceAnswer) else None
        elif isinstance(pending.call, engine_api.GetPayload):
            self._payload = answer if isinstance(answer, ExecutionPayload) else None
            error = (
                engine_api.seal_error(answer, "seal")
                if self._payload is None
                else self._mismatch(replacing, self._payload)
            )
        else:
            error = engine_api.commit_error(answer)
        if error is not None:
            self._replacing = None
            contradicts = isinstance(pending.call, engine_api.GetPayload) and self._payload is not None
            text = f"block {replacing.invalidated} cannot be replaced: {error.text}"
            raise ResetError(text, Code.ENGINE_CONTRADICTS if contradicts else None)
        if isinstance(pending.call, engine_api.NewPayload):
            self._replaced(replacing, pending.call.payload, now)

    def _mismatch(self, replacing: Invalidate, payload: ExecutionPayload) -> engine_api.BuildError | None:
        mismatch = sealed_mismatch(self._core.config.rollup, replacing.attributes, replacing.parent, payload)
        return None if mismatch is None else engine_api.BuildError(engine_api.OTHER, mismatch.text)

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
        core.interop.replaced(ref, replacing.invalidated.hash, now.monotonic)
