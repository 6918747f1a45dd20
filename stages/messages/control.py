"""Requests of rpc to the engine process (`engine.control`)."""

from rollup_node.stages.messages.base import Message
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.payloads import ExecutionPayload
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


class OutputRequest(Message, frozen=True, tag="OutputRequest"):
    """optimism_outputAtBlock."""

    id: int
    number: int


class SafeHeadRequest(Message, frozen=True, tag="SafeHeadRequest"):
    """optimism_safeHeadAtL1Block: the safe head at the L1 block `number`."""

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
    """The parts of an output root with the heads at that moment, or an `error`."""

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
