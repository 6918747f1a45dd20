"""The stream of items in a channel, and the effect of an invalid item on the others [ST1 to ST6, BE1 to BE7]."""

import tracemalloc
import zlib

import pytest

from rollup_node.stages.derivation.reasons import channels as reasons
from rollup_node.stages.derivation.reasons.reason import AnyKind, Reason
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import GENESIS, L2_BLOCK_TIME, forks_until
from tests.conformance.kit.channel_reading import read_channel
from tests.conformance.kit.planning import plan, span
from tests.conformance.kit.streams import batch, stream

pytestmark = pytest.mark.fault("F28")

ISTHMUS = forks_until("isthmus")
BEFORE_DELTA = forks_until("canyon")
GOOD = stream([batch(1)])
GOOD_2 = stream([batch(2)])
SPAN = span(plan(GENESIS, 1, ()))
"""Of one block without transactions."""
AFTER = len(GOOD)


def blocks(output: bytes, forks: dict[str, int] = ISTHMUS) -> tuple[list[int], list[tuple[DropEffect, Reason]]]:
    """Return the numbers of the first blocks of the batches in this stream, and what was dropped."""
    channel = read_channel(zlib.compress(output), forks)
    return [time // L2_BLOCK_TIME for time in channel.times], [(item.effect, item.reason) for item in channel.dropped]


@table(
    rlp_list_item=(b"\xc2\x80\x80" + GOOD, [], reasons.StreamItemIsList(0)),
    rlp_good_list_good=(GOOD + b"\xc2\x80\x80" + GOOD_2, [1], reasons.StreamItemIsList(AFTER)),
    rlp_noncanon_81=(GOOD + b"\x81\x05" + GOOD_2, [1], reasons.StreamLengthNotMinimal(AFTER)),
    rlp_b8_short=(b"\xb8\x05hello" + GOOD, [], reasons.StreamLengthNotMinimal(0)),
    rlp_b9_leading_zero=(b"\xb9\x00\x64" + bytes(100) + GOOD, [], reasons.StreamLengthNotMinimal(0)),
    rlp_empty_item=(GOOD + b"\x80" + GOOD_2, [1], reasons.BatchEmpty()),
    rlp_trunc_header=(GOOD + b"\xb9", [1], reasons.StreamTruncated(AFTER)),
    rlp_trunc_payload=(GOOD + GOOD_2[:-1], [1], reasons.StreamTruncated(AFTER)),
    rlp_type_2=(GOOD + stream([b"\2" + batch(2)[1:]]) + GOOD_2, [1], reasons.BatchTypeUnknown(2)),
)
def ends(output: bytes, numbers: list[int], reason: Reason) -> None:
    assert blocks(output) == (numbers, [(DropEffect.ENDED, reason)])


@case("rlp_huge_len")
def a_length_of_64_bits() -> None:
    body = zlib.compress(GOOD + b"\xbf" + b"\xff" * 8 + GOOD_2)
    tracemalloc.start()
    try:
        channel = read_channel(body, ISTHMUS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (channel.times, channel.reason) == ([2], reasons.StreamLimitExceeded(100_000_000, AFTER))
    assert peak < 1_000_000


BLOB_TRANSACTION = bytes.fromhex("03c3808080")
"""A payload of type 3, which no span may have."""


def span_with_type_3() -> bytes:
    """Return a span of one block and one transaction, whose payload is then replaced by one of type 3."""
    signature, recipient = b"\1" * 64, b"\2" * 20
    good = SPAN
    assert good[-1:] == b"\0"
    return good[:-1] + b"\1" + b"\0" + b"\0" + signature + recipient + BLOB_TRANSACTION + b"\0" + b"\0"


ENDED, DROPPED = DropEffect.ENDED, DropEffect.DROPPED


@table(
    rlp_single_byte_00=(GOOD + b"\0" + GOOD_2, ISTHMUS, [1], ENDED, reasons.SingularBatchMalformed),
    rlp_bad_singular_then_good=(stream([batch(1)[:-1]]) + GOOD_2, ISTHMUS, [], ENDED, reasons.SingularBatchMalformed),
    rlp_bad_span_raw_then_good=(stream([SPAN[:-1]]) + GOOD_2, ISTHMUS, [], ENDED, reasons.SpanBatchMalformed),
    rlp_span_raw_bad_pre_delta=(stream([SPAN[:-1]]) + GOOD_2, BEFORE_DELTA, [], ENDED, reasons.SpanBatchMalformed),
    rlp_bad_span_derive_then_good=(
        *(stream([span_with_type_3()]) + GOOD_2, ISTHMUS),
        *([2], DROPPED, reasons.SpanTransactionInvalid),
    ),
    rlp_span_pre_delta_then_good=(stream([SPAN]) + GOOD_2, BEFORE_DELTA, [2], DROPPED, reasons.SpanBatchNotAllowed),
)
def a_batch_that_is_not_read(
    output: bytes, forks: dict[str, int], numbers: list[int], effect: DropEffect, reason: AnyKind
) -> None:
    """A malformed one ends the channel; a span that cannot be restored, or comes before Delta, goes alone."""
    result, dropped = blocks(output, forks)
    assert (result, [(item, drop.kind) for item, drop in dropped]) == (numbers, [(effect, reason)])
