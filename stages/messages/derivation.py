"""What the derivation process publishes (`status.derivation`), and its drops by request (`derivation.drops`)."""

from enum import StrEnum
from typing import Any

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.protocol.types import L1BlockRef


class DerivationWaits(msgspec.Struct, frozen=True, array_like=True):
    """Whole seconds that derivation waited for each neighbour and worked, not having read all of L1 [LOG17]."""

    l1: int = 0
    blobs: int = 0
    compute: int = 0
    engine: int = 0
    derivation: int = 0


class DerivationStatus(Message, frozen=True, tag="DerivationStatus"):
    """How far the pipeline has read: `current_l1` is its L1 origin.

    `idle` when that block is exhausted and the engine has every L2 block derived from it. With Alt-DA, `settled_l1`
    is the L1 block up to which no challenge can take out what was derived [ADA11]; None while that is not known."""

    reset: int
    current_l1: L1BlockRef | None
    idle: bool
    settled_l1: int | None = None
    waits: DerivationWaits = DerivationWaits()


class DropEffect(StrEnum):
    """What happened to input that went no further; the value is the metric label `effect`."""

    IGNORED = "ignored"
    DROPPED = "dropped"
    FLUSHED = "flushed"
    """Dropped, and the rest of its span and channel with it."""
    ENDED = "ended"
    """The channel gives no further batch."""
    PAST = "past"
    UNDECIDED = "undecided"
    """Discarded because L1 or L2 blocks that decide were missing."""
    TIMED_OUT = "timed_out"
    DISCARDED = "discarded"
    RESET = "reset"


class Drop(msgspec.Struct, frozen=True, array_like=True):
    """Input that derivation dropped: the rule's id, a text, and the L1 block that was being read.

    `needs_parent_hash` when a batch did not match the hash of its parent block. The text is made of `effect`,
    `reason` (the name of the reason) and `values` (the reason's fields, bytes among them as hex text)."""

    rule: str
    text: str
    origin: L1BlockRef | None
    needs_parent_hash: bool
    effect: DropEffect
    reason: str
    values: dict[str, int | str]

    def shown(self) -> dict[str, Any]:
        """Return the drop as a JSON object."""
        origin = self.origin
        return {
            "l1_block": None if origin is None else {"hash": f"0x{origin.hash.hex()}", "number": origin.number},
            "effect": self.effect,
            "rule": self.rule,
            "reason": self.reason,
            "text": self.text,
            "values": self.values,
        }


class Drops(Message, frozen=True, tag="Drops"):
    """How many drops this incarnation of the process counted, and the latest of them, oldest first."""

    total: int
    latest: tuple[Drop, ...]


class DropCount(msgspec.Struct, frozen=True, array_like=True):
    """Drops of a reason and effect since the process began, with text and L1 block number of the last."""

    rule: str
    reason: str
    effect: DropEffect
    count: int
    text: str
    l1_block: int | None


class DropCounts(Message, frozen=True, tag="DropCounts"):
    """The drops by reason and effect, the most frequent first."""

    kinds: tuple[DropCount, ...]


class DropsRequest(Message, frozen=True, tag="DropsRequest"):
    """Asks for drops from number `first` on, acknowledging those before; `id` is unique within the incarnation."""

    id: int
    first: int


class DropsResponse(Message, frozen=True, tag="DropsResponse"):
    """Drops from number `first` on; `total` counts those of this incarnation at the time of request `id`.

    `first` is higher than requested where older ones are gone, and lower where there are fewer."""

    id: int
    first: int
    drops: tuple[Drop, ...]
    total: int
