"""Drops in their order, with the L1 block being read."""

from rollup_node.stages.derivation.pipeline.outputs import DiscardedEvents, PipelineEvents
from rollup_node.stages.derivation.reasons.l1 import FramesEmpty, FramesMissing
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.chain import L1Blocks


def test_drops_carry_the_origin() -> None:
    events, origin = PipelineEvents(), L1Blocks().last.ref
    events.drop(DropEffect.IGNORED, FramesEmpty())
    events.origin = origin
    events.drop(DropEffect.DROPPED, FramesMissing())
    assert list(events.drops) == [
        Dropped(DropEffect.IGNORED, FramesEmpty(), None),
        Dropped(DropEffect.DROPPED, FramesMissing(), origin),
    ]


def test_drops_of_what_is_read_ahead_are_not_kept() -> None:
    events = DiscardedEvents()
    events.drop(DropEffect.IGNORED, FramesEmpty())
    assert not events.drops
