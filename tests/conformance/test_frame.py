"""Frames in a data item: a malformed frame rejects its whole item, and no other item [P1 to P11]."""

import tracemalloc
from collections.abc import Callable

import pytest

from rollup_node.stages.derivation.codec.frames import parse_frames
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs
from rollup_node.stages.derivation.reasons import l1 as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.cases import CoveredCases, case, table
from tests.conformance.kit.chain import blobs, forks_until
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import frames, item

pytestmark = pytest.mark.fault("F29")

ONE = item("A0!")
HEAD = 16 + 2 + 4


def with_length(length: int, data: bytes) -> bytes:
    """Return a frame that claims a length."""
    return b"\0" + b"A" * 16 + b"\0\0" + length.to_bytes(4, "big") + data + b"\1"


@table(
    frame_empty_item=(b"", reasons.FramesEmpty()),
    frame_only_version=(b"\0", reasons.FramesMissing()),
    frame_version_1=(b"\1" + ONE[1:], reasons.FramesVersionUnknown(1)),
    frame_len_1000001=(
        with_length(1_000_001, bytes(1_000_001)),
        reasons.FrameTooLong(0, 1, 1_000_001),
    ),
    frame_trunc_id=(ONE[:16], reasons.FrameTruncated(0, 1, "channel id")),
    frame_trunc_num=(ONE[:18], reasons.FrameTruncated(0, 1, "number")),
    frame_trunc_len=(ONE[:22], reasons.FrameTruncated(0, 1, "length")),
    frame_trunc_data=(ONE[:-2], reasons.FrameTruncated(0, 1, "data")),
    frame_no_last=(ONE[:-1], reasons.FrameTruncated(0, 1, "end mark")),
    frame_last_2=(ONE[:-1] + b"\2", reasons.FrameEndMarkInvalid(0, 1, 2)),
    frame_good_then_bad=(ONE + ONE[1:-1], reasons.FrameTruncated(1, len(ONE), "end mark")),
    frame_trailing_one=(ONE + b"\0", reasons.FrameTruncated(1, len(ONE), "channel id")),
)
def rejected(data: bytes, reason: Reason) -> None:
    """The stages then continue with the next item."""
    harness = IngestionHarness(forks_until("granite"))
    assert harness.read(data, "B0!") == ["B0"]
    (dropped,) = harness.dropped
    assert dropped.effect is DropEffect.IGNORED
    assert parse_frames(data) == dropped.reason == reason


@case("frame_len_claim_4g")
def claims_four_gigabytes() -> None:
    data = with_length(0xFFFFFFFF, bytes(100))
    tracemalloc.start()
    try:
        frames = parse_frames(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert frames == reasons.FrameTooLong(0, 1, 0xFFFFFFFF)
    assert peak < 100_000


@table(
    frame_one_ok="A0!",
    frame_two_channels="A0 B3!",
    frame_zero_len="A0!:0",
    frame_len_1000000="A0!:1000000",
)
def taken(text: str) -> None:
    assert parse_frames(item(text)) == frames(text)


covered = CoveredCases(frame_bad_item_then_good=("frame_no_last", "asm_bad_item_between"))


@case("frame_bad_blob_item_same_tx")
def the_next_blob_is_read() -> None:
    harness = IngestionHarness(forks_until("ecotone"))
    block = harness.l1.add(blobs([b"\1" * 32, b"\2" * 32]))
    rules = harness.config.schedule().l1(block.header.timestamp)
    harness.ingestion.source.open(block, block.inbox[0].sender, rules)
    read: Callable[[], object] = lambda: harness.ingestion.next_channel(block.ref, rules)  # noqa: E731
    assert isinstance(read(), NeedBlobs)
    contents = [BlobContent(b"\1" * 32, b"\0junk", None), BlobContent(b"\2" * 32, item("B0!"), None)]
    assert harness.ingestion.source.add_blobs(block.header.hash, contents)
    channel = read()
    assert channel is not None and getattr(channel, "body", None) == b"B0 "
