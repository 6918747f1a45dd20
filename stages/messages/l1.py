"""What the l1 process publishes (`status.l1`) and answers (`l1.blocks` to derivation, `l1.origins` to engine)."""

import msgspec

from rollup_node.stages.messages.base import Message, Problem
from rollup_node.stages.protocol.types import ZERO_HASH, Address, Hash, L1Block, L1BlockRef


class L1Heads(Message, frozen=True, tag="L1Heads"):
    """The L1 heads as l1 sees them; None for a label that is not known yet."""

    head: L1BlockRef | None
    safe: L1BlockRef | None
    finalized: L1BlockRef | None


class L1Proof(Message, frozen=True, tag="L1Proof"):
    """The newest proof of L1 by its beacon chain, with `l1.checkpoint` alone; times are those of the slots in seconds.

    `period` is the sync committee's, of which `participants` of `committee_size` have signed the head. `is_linked`:
    the L1 blocks that derivation reads are ancestors of a proven one."""

    head_slot: int
    head_time: int
    finalized_slot: int
    finalized_time: int
    period: int
    participants: int
    committee_size: int
    is_linked: bool


class RuntimeConfig(msgspec.Struct, frozen=True, array_like=True):
    """The runtime config of a chain as L1's contracts hold it now [RTC4].

    The zero address if no unsafe block signer is set, and zero for versions that are not set or not read [PRV2]."""

    unsafe_block_signer: Address
    required_version: Hash = ZERO_HASH
    recommended_version: Hash = ZERO_HASH


class RuntimeConfigs(Message, frozen=True, tag="RuntimeConfigs"):
    """The runtime configs of the node's chains, by L2 chain id."""

    chains: dict[int, RuntimeConfig]


class L1BlocksRequest(Message, frozen=True, tag="L1BlocksRequest"):
    """Asks for the canonical L1 blocks `first` to `first + count - 1`; l1 sends each as soon as it has it.

    A later request with a higher `first` acknowledges all blocks before it."""

    first: int
    count: int


class L1BlockResponse(Message, frozen=True, tag="L1BlockResponse"):
    """A verified canonical L1 block."""

    block: L1Block


class L1BlockUnavailable(Message, frozen=True, tag="L1BlockUnavailable"):
    """There is no such block yet (`head` is the newest visible number), or fetching it fails with `error`."""

    number: int
    head: int
    error: Problem | None


class L1RefsRequest(Message, frozen=True, tag="L1RefsRequest"):
    """Asks for L1 block `last` and `count` - 1 below it as references: cheap ones, which are never cached."""

    last: int
    count: int


class L1RefsResponse(Message, frozen=True, tag="L1RefsResponse"):
    """References linked by parent hash, in ascending order and ending at `last`.

    Fewer than requested where fetching takes too long or they do not link. Empty where L1 has no such block, or with
    an `error`."""

    last: int
    refs: tuple[L1BlockRef, ...]
    error: Problem | None
