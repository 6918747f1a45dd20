"""Brotli: which streams are read as a whole."""

import brotli
import pytest

from rollup_node.stages.derivation.codec.brotli_stream import whole_output
from rollup_node.stages.derivation.codec.zlib_stream import SLACK

STREAM = bytes(brotli.compress(b"\x83abc" * 9, quality=5))


@pytest.mark.parametrize("junk", [b"junk", STREAM], ids=["bytes", "a second stream"])
def test_a_stream_with_bytes_behind_it_is_read_in_pieces(junk: bytes) -> None:
    assert whole_output(STREAM, 1000, SLACK) == b"\x83abc" * 9
    assert whole_output(STREAM + junk, 1000, SLACK) is None


def test_no_more_than_the_limit_is_decoded() -> None:
    output = whole_output(brotli.compress(bytes(6_000_000), quality=5), 1_000_000, SLACK)
    assert output is not None and len(output) == 1_000_000 + SLACK
