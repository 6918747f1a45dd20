"""Calls of the conductor, and its answers [CND1]."""

import msgspec

from rollup_node.stages.protocol.payloads import ExecutionPayload


class GetLeader(msgspec.Struct, frozen=True):
    """conductor_leader; answered by Leadership."""


class CommitPayload(msgspec.Struct, frozen=True):
    """conductor_commitUnsafePayload; answered by Committed."""

    payload: ExecutionPayload


class Leadership(msgspec.Struct, frozen=True):
    """Whether this node is the leader."""

    is_leader: bool


class Committed(msgspec.Struct, frozen=True):
    """The conductor has stored the payload."""


ConductorCall = GetLeader | CommitPayload
ConductorAnswer = Leadership | Committed
