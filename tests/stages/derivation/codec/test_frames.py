"""Frames: any bytes give frames or a reason, and pruning is that of the model."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.frames import Frame, parse_frames, prune_frames
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.tools.batcher import channels
from tests.support.chains.derivation_model import pruned

A, B = b"A" * 16, b"B" * 16


def _encoded(frame: Frame) -> bytes:
    head = frame.channel + frame.number.to_bytes(2, "big") + len(frame.data).to_bytes(4, "big")
    return head + frame.data + bytes((frame.is_last,))


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_reason(data: bytes) -> None:
    frames = parse_frames(data)
    assert isinstance(frames, Reason) or b"\0" + b"".join(map(_encoded, frames)) == data


_SOME = st.builds(
    Frame, st.sampled_from([A, B, b"C" * 16]), st.sampled_from([0, 1, 2, 65535]), st.just(b""), st.booleans()
)


@given(st.lists(_SOME, max_size=12))
def test_pruning_is_that_of_the_model(frames: list[Frame]) -> None:
    """[Q3]"""
    assert pruned([channels.Frame(*frame) for frame in frames]) == tuple(
        channels.Frame(*frame) for frame in prune_frames(frames)[0]
    )
