"""Streams put together from prepared bodies."""

import gzip

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.bench.race.gzip_body import Prepared, deflated, gzipped

BODIES = st.one_of(st.binary(max_size=300), st.binary(max_size=40).map(lambda part: part * 5000))


@given(st.lists(st.tuples(BODIES, st.booleans()), max_size=5))
def test_a_stream_is_the_parts_one_after_another(parts: list[tuple[bytes, bool]]) -> None:
    given_parts = [Prepared(body, deflated(body)) if prepared else body for body, prepared in parts]
    assert gzip.decompress(b"".join(gzipped(given_parts))) == b"".join(body for body, _ in parts)


def test_a_prepared_body_is_sent_as_it_was_compressed() -> None:
    body = b'{"hash":"0x00"}' * 1000
    stream = gzipped([b"[", Prepared(body, deflated(body)), b"]"])
    assert deflated(body) in stream and sum(map(len, stream)) < len(body) // 20
