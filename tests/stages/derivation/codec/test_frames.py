"""derivation-rules 6 by its conformance ids; pruning also against the wording of Q3, frame by frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.frames import MAX_DATA, Frame, parse_frames, prune_frames
from rollup_node.stages.derivation.reasons.frames import (
    FrameEndMarkInvalid,
    FramesEmpty,
    FramesMissing,
    FramesVersionUnknown,
    FrameTooLong,
    FrameTruncated,
)
from rollup_node.stages.derivation.reasons.reason import Reason

A, B = b"A" * 16, b"B" * 16


def _encoded(
    channel: bytes = A, number: int = 0, data: bytes = b"data", last: int = 1, length: int | None = None
) -> bytes:
    size = len(data) if length is None else length
    return channel + number.to_bytes(2, "big") + size.to_bytes(4, "big") + data + bytes((last,))


GOOD = _encoded()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", FramesEmpty, id="frame_empty_item"),
        pytest.param(b"\0", FramesMissing, id="frame_only_version"),
        pytest.param(b"\1" + GOOD, FramesVersionUnknown, id="frame_version_1"),
        pytest.param(b"\7" + GOOD, FramesVersionUnknown, id="altda_v7_pass"),
        pytest.param(b"\0" + _encoded(data=bytes(MAX_DATA + 1)), FrameTooLong, id="frame_len_1000001"),
        pytest.param(b"\0" + _encoded(length=0xFFFFFFFF), FrameTooLong, id="frame_len_claim_4g"),
        pytest.param(b"\0" + GOOD[:15], FrameTruncated, id="frame_trunc_id"),
        pytest.param(b"\0" + GOOD[:17], FrameTruncated, id="frame_trunc_num"),
        pytest.param(b"\0" + GOOD[:21], FrameTruncated, id="frame_trunc_len"),
        pytest.param(b"\0" + _encoded(length=6)[:-1], FrameTruncated, id="frame_trunc_data"),
        pytest.param(b"\0" + GOOD[:-1], FrameTruncated, id="frame_no_last"),
        pytest.param(b"\0" + _encoded(last=2), FrameEndMarkInvalid, id="frame_last_2"),
        pytest.param(b"\0" + GOOD + GOOD[:-1], FrameTruncated, id="frame_good_then_bad"),
        pytest.param(b"\0" + GOOD + b"\0", FrameTruncated, id="frame_trailing_one"),
    ],
)
def test_refused(data: bytes, why: type[Reason]) -> None:
    found = parse_frames(data)
    assert isinstance(found, Reason)
    assert type(found) is why
    assert str(found)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        pytest.param(GOOD, 1, id="frame_one_ok"),
        pytest.param(GOOD + _encoded(B, 7, last=0), 2, id="frame_two_channels"),
        pytest.param(_encoded(data=b""), 1, id="frame_zero_len"),
        pytest.param(_encoded(data=bytes(MAX_DATA)), 1, id="frame_len_1000000"),
    ],
)
def test_accepted(data: bytes, count: int) -> None:
    found = parse_frames(b"\0" + data)
    assert isinstance(found, list)
    assert len(found) == count
    assert b"".join(_encoded(each.channel, each.number, each.data, each.is_last) for each in found) == data


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_reason(data: bytes) -> None:
    found = parse_frames(data)
    assert (
        isinstance(found, Reason)
        or b"\0" + b"".join(_encoded(each.channel, each.number, each.data, each.is_last) for each in found) == data
    )


def _frames(text: str) -> list[Frame]:
    """`A0 B1!`: channel, number, `!` for a closing frame."""
    return [Frame(word[0].encode() * 16, int(word[1:].rstrip("!")), b"", word.endswith("!")) for word in text.split()]


def _text(frames: list[Frame]) -> str:
    return " ".join(f"{chr(each.channel[0])}{each.number}{'!' if each.is_last else ''}" for each in frames)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("A0 A1 A2! B0", "A0 A1 A2! B0", id="fq_ordered"),
        pytest.param("A0 A2", "A0", id="fq_gap"),
        pytest.param("A0 A1 A1 A2", "A0 A1 A2", id="fq_dup"),
        pytest.param("A0! A1", "A0!", id="fq_after_last"),
        pytest.param("A0 B1", "A0", id="fq_nonfirst_other"),
        pytest.param("A5 A6", "A5 A6", id="fq_start_nonfirst"),
        pytest.param("A0 A1 B0", "B0", id="fq_unclosed_then_first"),
        pytest.param("A3 A4 B0", "B0", id="fq_unclosed_start_nonfirst"),
        pytest.param("A0! B0", "A0! B0", id="fq_closed_then_first"),
        pytest.param("A0 A1 A0", "A0 A1", id="fq_restart_same_id"),
        pytest.param("A0! A0", "A0!", id="fq_restart_same_id_closed"),
        pytest.param("A0! B0! A0 C0", "A0! B0! C0", id="fq_reused_id_far"),
        pytest.param("A0! B0 B1 C0", "A0! C0", id="fq_unclosed_between"),
        pytest.param("A0 B1 A1", "A0 A1", id="fq_other_nonfirst_then_next"),
        pytest.param("A65535 A0", "A65535 A0", id="fq_wrap_65535"),
        pytest.param("A0 B0 C0", "C0", id="fq_double_back"),
        pytest.param("A7", "A7", id="fq_single"),
    ],
)
def test_pruned(before: str, after: str) -> None:
    frames = _frames(before)
    kept, reasons = prune_frames(frames)
    assert _text(kept) == after
    assert len(reasons) == len(frames) - len(kept)
    assert all(str(reason) for reason in reasons)


def _cursor_walk(frames: list[Frame]) -> list[Frame]:
    """Q3 as it is worded: a cursor over neighbours."""
    left, at = list(frames), 0
    while at < len(left) - 1:
        current, following = left[at], left[at + 1]
        same = current.channel == following.channel
        if same and (current.is_last or following.number != (current.number + 1) % 65536):
            del left[at + 1]
        elif not same and following.number == 0 and not current.is_last:
            del left[at]
            at = max(0, at - 1)
        elif not same and following.number != 0:
            del left[at + 1]
        else:
            at += 1
    return left


_SOME = st.builds(
    Frame, st.sampled_from([A, B, b"C" * 16]), st.sampled_from([0, 1, 2, 65535]), st.just(b""), st.booleans()
)


@given(st.lists(_SOME, max_size=12))
def test_pruning_is_the_cursor_walk(frames: list[Frame]) -> None:
    assert prune_frames(frames)[0] == _cursor_walk(frames)
