"""The node as a supervisor manages it [IOP4, IOP20 to IOP22]: events for it, and what it decides.

Everything is off unless `interop.rpc.addr` is given.

Two events are needs, a start and the next L1 block. They are sent again until they are met [IOP29]: the supervisor may
not be connected, may fail, or may not have the L1 block yet.

What the supervisor decides is state here, applied by the core: the start, once per reset; the L1 block that derivation
may read next, in the published status; which blocks are safe, unsafe and final across chains, in the heads."""

import math
from collections import deque

from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.messages.interop import BlockRef, DerivedPair, InteropEvent, Replacement
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.schedule import dependency_set_needed_from
from rollup_node.stages.protocol.types import Hash, L1BlockRef, L2BlockRef

MAX_EVENTS = 100
REPEAT_SECONDS = 0.1
TRAVERSAL_REPEAT_SECONDS = 0.5

RESET_SECONDS = 5.0
EXHAUSTED_SECONDS = 3.0
"""Seconds after which a need that the supervisor has not met is sent again [IOP29]."""

FIRST_RESET = "cannot continue derivation until Engine has been reset"
"""The error with which op-node's derivation begins [IOP4]."""


class OrdinarySearch:
    """The supervisor has left the start to the node [IOP13]."""


def block_ref(ref: L2BlockRef) -> BlockRef:
    """Return the reference without the L1 origin."""
    return BlockRef(ref.hash, ref.number, ref.parent_hash, ref.timestamp)


class Interop:
    """`events` are the last ones with their numbers, which begin after `first`.

    `start` is the start that the supervisor has chosen, None while it is waited for. `provided_l1` is the L1 block that
    derivation may read next. `_exhausted` is where derivation waits for another one."""

    def __init__(self, rollup: RollupConfig, enabled: bool, first: int = 0) -> None:
        self.enabled = enabled
        self.events: deque[tuple[int, InteropEvent]] = deque(maxlen=MAX_EVENTS)
        self.start: Heads | OrdinarySearch | None = None
        self.provided_l1: L1BlockRef | None = None
        self._active_from = dependency_set_needed_from(rollup.fork_times)
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
        return not self.enabled or self.start is not None

    @property
    def start_heads(self) -> Heads | None:
        """The heads to start with, where the supervisor has named them."""
        return self.start if isinstance(self.start, Heads) else None

    def is_active(self, timestamp: int) -> bool:
        """Return whether blocks of that time are subject to the supervisor."""
        return self.enabled and self._active_from is not None and timestamp >= self._active_from

    # --- events ----------------------------------------------------------------------------------------------------

    def reset(self, reason: str, now: float) -> None:
        """Ask for another start, which the supervisor chooses."""
        self.start = self.provided_l1 = self._unsafe = self._origin = self._exhausted = None
        self._reset_reason = reason
        self._send_reset(now)

    def choose_start(self, start: Heads | OrdinarySearch) -> None:
        """Note that the supervisor has chosen a start; it provides L1 blocks from there on."""
        self.start, self.provided_l1, self._exhausted = start, None, None

    def on_derivation_start(self) -> None:
        """Note that derivation starts over, and reports where it is then."""
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
        """Take the L1 head: with another one, what the supervisor has not met yet is sent again [IOP29]."""
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
