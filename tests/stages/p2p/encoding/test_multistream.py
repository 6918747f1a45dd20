"""Multistream-select: both ends, known bytes, bounds, arbitrary input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.encoding.multistream import (
    HEADER,
    MAX_LINE_BYTES,
    MAX_PROPOSALS,
    Initiator,
    MultistreamError,
    Responder,
    encode_line,
)

HEADER_LINE = bytes.fromhex("132f6d756c746973747265616d2f312e302e300a")
NAMES = st.lists(st.sampled_from(["/a/1", "/b/1", "/c/1", "/" + "d" * 200]), min_size=1, unique=True)


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [*parts, data]


def negotiate(wanted: list[str], served: set[str], sizes: list[int]) -> tuple[Initiator, Responder]:
    ours, theirs = Initiator(wanted), Responder(served.__contains__)
    for _ in range(2 * len(wanted) + 2):
        for one, other in ((ours, theirs), (theirs, ours)):
            for part in split(one.data_to_send(), sizes):
                other.receive_data(part)
    return ours, theirs


@given(NAMES, st.sets(st.sampled_from(["/a/1", "/b/1", "/c/1"])), st.lists(st.integers(0, 30), max_size=20))
def test_both_ends_select_the_first_common_protocol(wanted: list[str], served: set[str], sizes: list[int]) -> None:
    expected = next((name for name in wanted if name in served), None)
    if expected is None:
        with pytest.raises(MultistreamError, match="does not support"):
            negotiate(wanted, served, sizes)
        return
    ours, theirs = negotiate(wanted, served, sizes)
    assert ours.selected == theirs.selected == expected
    assert ours.trailing_data == theirs.trailing_data == b""


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\x00",
        b"\x03abc",
        encode_line("/other/1"),
    ],
)
def test_other_headers_are_rejected(data: bytes) -> None:
    for end in (Initiator(["/a"]), Responder(lambda _: True)):
        with pytest.raises(MultistreamError):
            end.receive_data(data)


def test_lines_and_proposals_are_bounded() -> None:
    with pytest.raises(MultistreamError, match="line of"):
        Responder(lambda _: True).receive_data(HEADER_LINE + encode_line("/" + "a" * MAX_LINE_BYTES))
    theirs = Responder(lambda _: False)
    theirs.receive_data(HEADER_LINE + encode_line("/a") * (MAX_PROPOSALS - 1))
    with pytest.raises(MultistreamError, match="proposals is supported"):
        theirs.receive_data(encode_line("/a"))


def test_a_reply_that_is_neither_the_protocol_nor_na_is_rejected() -> None:
    with pytest.raises(MultistreamError, match="answered"):
        Initiator(["/a"]).receive_data(HEADER_LINE + encode_line("/b"))


def test_ls_and_unknown_lines_are_answered_with_na() -> None:
    theirs = Responder(lambda name: name == "/a")
    theirs.data_to_send()
    not_utf8 = "\udcff".encode("utf-8", "surrogateescape").decode("latin1")
    assert theirs.receive_data(encode_line(HEADER) + encode_line("ls") + encode_line(not_utf8)) is None
    assert theirs.data_to_send() == encode_line("na") * 2
    assert theirs.receive_data(encode_line("/a")) == "/a"
