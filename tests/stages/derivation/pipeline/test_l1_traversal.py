"""L1 traversal: links, and the system config in force."""

from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.pipeline.l1_traversal import L1Traversal
from rollup_node.stages.derivation.reasons.l1 import ConfigUpdateMalformed, L1ParentMismatch
from tests.conformance.kit.chain import (
    BATCHER,
    STRANGER,
    SYSTEM_CONFIG,
    L1Blocks,
    batcher_update,
    config_log,
    forks_until,
    l1_hash,
    rollup,
)

SCHEDULE = rollup(forks_until("granite", holocene=24)).schedule()


def test_updates_hold_from_their_own_block_on() -> None:
    l1, events = L1Blocks(), PipelineEvents()
    traversal = L1Traversal(SCHEDULE, events, l1.last.ref, SYSTEM_CONFIG)
    traversal.advance(l1.add())
    assert traversal.batcher == BATCHER
    traversal.advance(l1.add(updates=[config_log(0, b"\1", 4), batcher_update(STRANGER, 5)]))
    assert traversal.batcher == STRANGER
    assert traversal.rules.contiguous_frames
    assert traversal.origin == events.origin == l1.last.ref
    (dropped,) = events.drops
    assert isinstance(dropped.reason, ConfigUpdateMalformed) and dropped.reason.log == 4


def test_a_block_with_another_parent_is_rejected() -> None:
    l1 = L1Blocks()
    traversal = L1Traversal(SCHEDULE, PipelineEvents(), l1.last.ref, SYSTEM_CONFIG)
    parent = l1.last.header.hash
    assert traversal.rejection(l1.add()) is None
    l1.blocks.pop()
    other = l1.add(parent=l1_hash(7, "other"))
    assert traversal.rejection(other) == L1ParentMismatch(other.header.number, l1_hash(7, "other"), parent)
