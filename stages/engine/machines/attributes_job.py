"""Derived attributes on their way into the engine, and how far they are."""

from enum import Enum

import msgspec

from rollup_node.stages.engine.api.l2_block_info import L2BlockInfo
from rollup_node.stages.engine.machines.activation_hold import ActivationHold
from rollup_node.stages.engine.machines.build_probe import BuildProbe
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes


class AttributesStep(Enum):
    """How far a job is."""

    CONSOLIDATE = "consolidate"
    HOLD = "hold"
    START = "start"
    SEAL = "seal"
    INSERT = "insert"
    CHOOSE = "choose"


class AttributesJob(msgspec.Struct):
    """Attributes on their way into the engine; `attributes` are those of `derived` or their deposits only. `inserted`
    is their block, `following` the attributes that the update to it carries, unless the two are asked `apart`.
    `failed`: the engine neither built the block nor said that it is invalid; `lost` counts the builds that it began
    and did not return, until it is asked by a `probe` why."""

    derived: AttributesReady
    attributes: PayloadAttributes
    step: AttributesStep
    payload_id: bytes = b""
    payload: ExecutionPayload | None = None
    inserted: L2BlockInfo | None = None
    following: AttributesReady | None = None
    apart: bool = False
    failed: bool = False
    lost: int = 0
    probe: BuildProbe | None = None
    replaced: bool = False
    reason: Problem | None = None
    hold: ActivationHold | None = None

    @property
    def block(self) -> str:
        """The block that is to be built, for people."""
        content = " of deposits alone" if self.replaced else ""
        return f"block {self.derived.parent.number + 1}{content} on {self.derived.parent}"

    @property
    def asked(self) -> PayloadAttributes:
        """The attributes that the engine is to build."""
        return self.attributes if self.probe is None else self.probe.attributes
