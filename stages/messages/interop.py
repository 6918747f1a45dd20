"""Between the interop server of the rpc process and the engine process that a supervisor manages (`engine.interop`)."""

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.protocol.types import BlockId, BlockRef, Hash

DECISIONS = frozenset(
    (
        "updateCrossUnsafe",
        "updateCrossSafe",
        "updateFinalized",
        "invalidateBlock",
        "reset",
        "resetPreInterop",
        "provideL1",
    )
)
"""The methods that change the node's state, one after another in the order of their arrival; the others read
[IOP31]."""


class DerivedPair(msgspec.Struct, frozen=True, array_like=True):
    """An L2 block and the L1 block that it was derived from."""

    source: BlockRef
    derived: BlockRef


class Replacement(msgspec.Struct, frozen=True, array_like=True):
    """The block that replaced an invalidated one."""

    replacement: BlockRef
    invalidated: Hash


class InteropEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event for the supervisor: one of these, or both of a move to the next L1 block [IOP21]."""

    reset: str | None = None
    unsafe_block: BlockRef | None = None
    derivation_update: DerivedPair | None = None
    exhaust_l1: DerivedPair | None = None
    replace_block: Replacement | None = None
    derivation_origin_update: BlockRef | None = None


class InteropEventsRequest(Message, frozen=True, tag="InteropEventsRequest"):
    """Asks for events after number `after`; numbers rise over lives, so that lost ones are recovered."""

    after: int


class InteropEvents(Message, frozen=True, tag="InteropEvents"):
    """Events with their numbers, the oldest first."""

    events: tuple[tuple[int, InteropEvent], ...]


class InteropRequest(Message, frozen=True, tag="InteropRequest"):
    """A method `interop_<method>` with its parameters: blocks, an L1 block, or a number or timestamp.

    A repeated id of a decision gets the first response; a read is done again."""

    id: int
    method: str
    blocks: tuple[BlockId, ...] = ()
    l1: BlockRef | None = None
    number: int = 0


class InteropResponse(Message, frozen=True, tag="InteropResponse"):
    """The result as JSON text, or an `error` with its JSON-RPC code and, as JSON text, its data."""

    id: int
    result: bytes = b"null"
    error: str | None = None
    code: int = 0
    data: bytes | None = None
