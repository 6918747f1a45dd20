"""What the interop process publishes and answers, and what passes between the servers of a supervised node [IOP31].

`status.interop` and `interop.rounds` are of the interop process; `engine.interop` is between rpc and engine."""

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
    """An event for the interop supervisor: one of these, or both of a move to the next L1 block [IOP21]."""

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


class DeniedBlock(msgspec.Struct, frozen=True, array_like=True):
    """A block that must not stand in its chain [IV2]."""

    number: int
    hash: Hash


class ChainVerdict(msgspec.Struct, frozen=True, array_like=True):
    """What is verified of a chain.

    `verified` is its head in the last round, `final` that of the last round that L1 has finalized, None without.
    `denied`: blocks that must not stand in the chain. `go_back` is the number of the block that the chain goes back to
    for the transition number `transition` (rises, never reused; 0: none yet); None where it needs not go back. Its hash
    is zero where it is not known."""

    verified: BlockId | None
    final: BlockId | None
    denied: tuple[DeniedBlock, ...]
    transition: int
    go_back: BlockId | None


class Verdicts(Message, frozen=True, tag="Verdicts"):
    """The state of the interop process, on `status.interop`, for all chains by id.

    `activation` is when interop begins, in seconds; `current_l1` and `timestamp` are the L1 block and the time of the
    last round, None and 0 without one."""

    chains: dict[int, ChainVerdict]
    activation: int
    current_l1: BlockId | None
    timestamp: int


class RoundRequest(Message, frozen=True, tag="RoundRequest"):
    """Asks for the round of a time in seconds, and for the last block denied at each chain's height then [LB7, LB8]."""

    id: int
    timestamp: int


class DeniedOutput(msgspec.Struct, frozen=True, array_like=True):
    """What the output root of a denied block is made of [LB8]."""

    hash: Hash
    state_root: Hash
    storage_root: Hash


class HeadOutput(msgspec.Struct, frozen=True, array_like=True):
    """What the output root of a verified block is made of, and the first L1 block with which it was safe [LB7]."""

    state_root: Hash
    storage_root: Hash
    l1: BlockId


class RoundResponse(Message, frozen=True, tag="RoundResponse"):
    """The L1 block of a round, None if that second is not verified, and its heads; or an `error` [LB7, LB10].

    `outputs` are those of heads that are known without an engine. `removed` are the chains of the round whose heads are
    not stored any more, since they are so old [VR12]."""

    id: int
    error: str | None
    l1: BlockId | None
    heads: dict[int, BlockId]
    denied: dict[int, DeniedOutput]
    outputs: dict[int, HeadOutput]
    removed: tuple[int, ...] = ()
