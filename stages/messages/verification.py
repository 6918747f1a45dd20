"""What the interop process publishes of the verification of messages between chains (`status.interop`)."""

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.protocol.types import BlockId, Hash


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
