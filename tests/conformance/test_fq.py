"""The frame queue: from Holocene on, only contiguous frames are kept [Q1 to Q8]."""

from rollup_node.stages.derivation.codec.frames import parse_frames, prune_frames
from rollup_node.stages.derivation.reasons import l1 as l1_reasons
from rollup_node.stages.derivation.reasons.channels import FrameOfOtherChannel
from rollup_node.stages.derivation.reasons.reason import AnyKind
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import frames, item, names


def pruned(text: str) -> tuple[str, list[AnyKind]]:
    """Return the frames of an item that are kept, and why the others are dropped."""
    parsed = parse_frames(item(text))
    assert isinstance(parsed, list)
    assert parsed == frames(text)
    kept, reasons = prune_frames(parsed)
    return names(kept), [reason.kind for reason in reasons]


@table(
    fq_ordered=("A0 A1 A2! B0", "A0 A1 A2! B0", []),
    fq_gap=("A0 A2", "A0", [l1_reasons.FrameOutOfOrder]),
    fq_dup=("A0 A1 A1' A2", "A0 A1 A2", [l1_reasons.FrameOutOfOrder]),
    fq_after_last=("A0! A1", "A0!", [l1_reasons.FrameAfterLast]),
    fq_nonfirst_other=("A0 B1", "A0", [l1_reasons.FrameNotFirst]),
    fq_start_nonfirst=("A5 A6", "A5 A6", []),
    fq_unclosed_then_first=("A0 A1 B0", "B0", [l1_reasons.FrameOfUnclosedChannel] * 2),
    fq_unclosed_start_nonfirst=("A3 A4 B0", "B0", [l1_reasons.FrameOfUnclosedChannel] * 2),
    fq_closed_then_first=("A0! B0", "A0! B0", []),
    fq_restart_same_id=("A0 A1 A0'", "A0 A1", [l1_reasons.FrameOutOfOrder]),
    fq_restart_same_id_closed=("A0! A0'", "A0!", [l1_reasons.FrameAfterLast]),
    fq_unclosed_between=("A0! B0 B1 C0", "A0! C0", [l1_reasons.FrameOfUnclosedChannel] * 2),
    fq_other_nonfirst_then_next=("A0 B1 A1", "A0 A1", [l1_reasons.FrameNotFirst]),
    fq_wrap_65535=("A65535 A0", "A65535 A0", []),
    fq_double_back=("A0 B0 C0", "C0", [l1_reasons.FrameOfUnclosedChannel] * 2),
    fq_single=("A7", "A7", []),
)
def kept(text: str, left: str, reasons: list[AnyKind]) -> None:
    assert pruned(text) == (left, reasons)


@case("fq_reused_id_far")
def reused_id() -> None:
    """The unfinished A goes when C starts; the finished channels before it stay, the one of the same id among them."""
    assert pruned("A0! B0! A0' C0") == ("A0! B0! C0", [l1_reasons.FrameOfUnclosedChannel])


@case("fq_pre_holocene_unordered")
def unordered_before_holocene() -> None:
    harness = IngestionHarness(forks_until("granite"))
    assert harness.read("A2! A0", "A1") == ["A0 A1 A2"]
    assert harness.take_reasons() == []


@case("fq_boundary_time")
def from_the_very_second() -> None:
    """The first block is 12 seconds after genesis."""
    for seconds, reasons in ((12, [l1_reasons.FrameOutOfOrder]), (13, [])):
        harness = IngestionHarness(forks_until("granite", holocene=seconds))
        harness.read("A0 A2! A1")
        assert harness.take_reasons() == reasons


@case("fq_two_items_not_merged")
def items_are_pruned_apart() -> None:
    """B1 passes pruning; the channel assembler rejects it, because no channel B is open."""
    harness = IngestionHarness(forks_until("holocene"))
    assert harness.read("A0", "B1", "A1!") == ["A0 A1"]
    (dropped,) = harness.dropped
    assert (dropped.effect, dropped.reason.kind) == (DropEffect.IGNORED, FrameOfOtherChannel)
