"""Frame ingestion: channels over L1 blocks, and what a flush and a replaced channel stage discard."""

from rollup_node.stages.derivation.reasons.channels import FrameWithoutChannel
from tests.conformance.kit.chain import forks_until
from tests.conformance.kit.ingestion import IngestionHarness


def test_channels_over_several_blocks() -> None:
    harness = IngestionHarness(forks_until("granite"))
    assert harness.read("A0 B0") == []
    assert harness.read("B1!", "A1!") == ["B0 B1", "A0 A1"]
    assert harness.take_reasons() == []


def test_a_flush_drops_the_staging_channel_alone() -> None:
    harness = IngestionHarness(forks_until("holocene"))
    assert harness.read("A0") == []
    harness.ingestion.flush()
    assert harness.read("A1!", "B0!") == ["B0"]
    assert harness.take_reasons() == [FrameWithoutChannel]


def test_a_replaced_channel_stage_is_empty() -> None:
    harness = IngestionHarness(forks_until("granite", holocene=24))
    assert harness.read("A0", "B0") == []
    rules = harness.config.schedule().l1(harness.l1.last.header.timestamp + 12)
    assert harness.ingestion.replace_channels(rules) == (0, 2)
    assert harness.read("A1!", "C0!") == ["C0"]
    assert harness.take_reasons() == [FrameWithoutChannel]
