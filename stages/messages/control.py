"""Requests of rpc to the engine process (`engine.control`)."""

from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, Hash, L2BlockRef


class StartSequencerRequest(Message, frozen=True, tag="StartSequencerRequest"):
    """admin_startSequencer. `id` is unique within the requesting incarnation; a repeated id gets the first response."""

    id: int
    head: Hash


class StopSequencerRequest(Message, frozen=True, tag="StopSequencerRequest"):
    """admin_stopSequencer."""

    id: int


class OverrideLeaderRequest(Message, frozen=True, tag="OverrideLeaderRequest"):
    """admin_overrideLeader."""

    id: int


class ResetDerivationRequest(Message, frozen=True, tag="ResetDerivationRequest"):
    """admin_resetDerivationPipeline."""

    id: int


class SetRecoverModeRequest(Message, frozen=True, tag="SetRecoverModeRequest"):
    """admin_setRecoverMode."""

    id: int
    mode: bool


class SetSdmOptInRequest(Message, frozen=True, tag="SetSdmOptInRequest"):
    """admin_setSdmPostExecOptIn."""

    id: int
    enabled: bool


class OutputRequest(Message, frozen=True, tag="OutputRequest"):
    """optimism_outputAtBlock; with `only_safe` superroot_atTimestamp, up to the local safe head [RPC43]."""

    id: int
    number: int
    only_safe: bool = False


class SafeHeadRequest(Message, frozen=True, tag="SafeHeadRequest"):
    """optimism_safeHeadAtL1Block: the safe head at the L1 block `number`."""

    id: int
    number: int


L1_NOT_FOUND = "l1 at safe head not found"
"""The error of a block that is not in the safe head database yet [SDB6]."""
L1_HISTORY_UNAVAILABLE = "l1 at safe head history unavailable"
"""The error of a block that became safe before the safe head database begins, or in a gap of it [SDB15]."""


class L1AtSafeHeadRequest(Message, frozen=True, tag="L1AtSafeHeadRequest"):
    """The first L1 block with which the safe head reached the L2 block `number` [RPC44]."""

    id: int
    number: int


class PostUnsafePayloadRequest(Message, frozen=True, tag="PostUnsafePayloadRequest"):
    """admin_postUnsafePayload: a block to handle like one from gossip."""

    id: int
    payload: ExecutionPayload


class ControlResponse(Message, frozen=True, tag="ControlResponse"):
    """The response to all requests without one of their own: an `error`, or the `head` where the method returns one."""

    id: int
    error: str | None
    head: Hash | None


class OutputResponse(Message, frozen=True, tag="OutputResponse"):
    """An output root's parts with the heads then, or an `error`; `status` without `block`: none that is safe."""

    id: int
    error: str | None
    block: L2BlockRef | None
    output_root: Hash
    state_root: Hash
    withdrawal_storage_root: Hash
    status: EngineStatus | None


class SafeHeadResponse(Message, frozen=True, tag="SafeHeadResponse"):
    """The last L1 block at or below the requested one with which a block became safe, and that block; or an `error`."""

    id: int
    error: str | None
    l1_block: BlockId
    safe_head: BlockId


class OpenBlockRequest(Message, frozen=True, tag="OpenBlockRequest"):
    """opstack_openBlockV1: start a block on `parent`."""

    id: int
    parent: BlockId
    attributes: PayloadAttributes


class SealBlockRequest(Message, frozen=True, tag="SealBlockRequest"):
    """opstack_sealBlockV1, or with `cancel` opstack_cancelBlockV1, for the block of `payload_id` at `timestamp`."""

    id: int
    payload_id: bytes
    timestamp: int
    cancel: bool


class CommitBlockRequest(Message, frozen=True, tag="CommitBlockRequest"):
    """opstack_commitBlockV1: insert the block, which becomes the unsafe head."""

    id: int
    payload: ExecutionPayload


class BuildResponse(Message, frozen=True, tag="BuildResponse"):
    """The response to the three requests above: an `error` with its JSON-RPC code, or what the method returns."""

    id: int
    error: str | None
    code: int = 0
    payload_id: bytes | None = None
    payload: ExecutionPayload | None = None
