"""Frames: any bytes give frames or a reason, and pruning is the walk of Q3."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.frames import Frame, parse_frames, prune_frames
from rollup_node.stages.derivation.reasons.reason import Reason

A, B = b"A" * 16, b"B" * 16


def _encoded(frame: Frame) -> bytes:
    head = frame.channel + frame.number.to_bytes(2, "big") + len(frame.data).to_bytes(4, "big")
    return head + frame.data + bytes((frame.is_last,))


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_reason(data: bytes) -> None:
    frames = parse_frames(data)
    assert isinstance(frames, Reason) or b"\0" + b"".join(map(_encoded, frames)) == data


def _cursor_walk(frames: list[Frame]) -> list[Frame]:
    """Q3 by its wording: a cursor over neighbours."""
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
