"""Frames: pruning is that of the model; conformance and fuzz targets read them."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.frames import Frame, prune_frames
from rollup_node.tools.batcher import channels
from tests.support.chains.derivation_model import pruned

A, B = b"A" * 16, b"B" * 16


_SOME = st.builds(
    Frame, st.sampled_from([A, B, b"C" * 16]), st.sampled_from([0, 1, 2, 65535]), st.just(b""), st.booleans()
)


@given(st.lists(_SOME, max_size=12))
def test_pruning_is_that_of_the_model(frames: list[Frame]) -> None:
    """[Q3]"""
    assert pruned([channels.Frame(*frame) for frame in frames]) == tuple(
        channels.Frame(*frame) for frame in prune_frames(frames)[0]
    )
