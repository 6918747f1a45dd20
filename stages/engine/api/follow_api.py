"""Calls of the follow source, another node of the chain, and its answers [FSR1]."""

import msgspec

from rollup_node.stages.protocol.types import BlockId, L2BlockRef


class GetFollowStatus(msgspec.Struct, frozen=True):
    """optimism_syncStatus; answered by FollowStatus."""


class FollowStatus(msgspec.Struct, frozen=True):
    """The heads of the follow source. `current_l1` is the L1 block it derives from, None if it says none."""

    current_l1: BlockId | None
    local_safe: L2BlockRef
    safe: L2BlockRef
    finalized: L2BlockRef
