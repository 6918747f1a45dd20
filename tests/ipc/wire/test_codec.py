"""Envelopes and payloads: what does not have the declared shape is refused."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.ipc.shared_memory.arena import Descriptor
from rollup_node.ipc.wire.codec import Codec, Envelope, Failure, Head, MessageRejected, Report, decode_head, encode_head


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


class Tell(msgspec.Struct, frozen=True, array_like=True, tag=True):
    names: tuple[str, ...]
    inner: Ask | None


class Other(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


words = st.integers(0, (1 << 63) - 1)
descriptors = st.builds(Descriptor, words, st.lists(st.tuples(words, words), min_size=1).map(tuple))
heads = st.one_of(
    st.builds(Envelope, words, words, words, words, st.none() | descriptors),
    st.builds(Report, words, words, st.none() | words, st.lists(st.tuples(words, words)).map(tuple)),
    st.builds(Failure, words, words, words, st.text(max_size=100)),
)


@given(heads)
def test_heads_come_back(head: Head) -> None:
    assert decode_head(encode_head(head)) == head


@given(st.one_of(st.builds(Ask, words, st.binary()), st.builds(Tell, st.lists(st.text()).map(tuple), st.none())))
def test_messages_come_back(message: Ask | Tell) -> None:
    codec = Codec(Ask | Tell)
    assert codec.decode(codec.encode(message)) == message


def test_a_single_type_needs_no_union() -> None:
    codec = Codec(Ask)
    assert codec.decode(codec.encode(Ask(1, b"x"))) == Ask(1, b"x")


def test_sending_what_the_channel_does_not_carry_is_a_bug() -> None:
    with pytest.raises(TypeError, match="Other does not travel on this channel \\(only Ask, Tell\\)"):
        Codec(Ask | Tell).encode(Other(1))


def test_a_member_of_another_union_is_refused() -> None:
    with pytest.raises(MessageRejected, match="malformed message"):
        Codec(Ask | Tell).decode(Codec(Other).encode(Other(1)))


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(octets: bytes) -> None:
    for decode in (decode_head, Codec(Ask | Tell).decode):
        try:
            decode(octets)
        except MessageRejected:
            continue
        assert octets[:1] >= b"\x91", "only a typed array is ever taken"


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        b"\x92\xa3Ask\xdd\xff\xff\xff\xff",
        b"\x93\xa3Ask\x01\xc6\xff\xff\xff\xff",
        b"\x93\xa4Tell\xdd\xff\xff\xff\xff\xc0",
        b"\x93\xa4Tell\x91\xa1\xff\xc0",
        b"\x92\xa3Ask\xa11",
        b"\x92\xa3Ask\x01trailing",
    ],
    ids=["empty", "opcode", "deep", "array", "bytes", "list", "utf8", "type", "trailing"],
)
def test_traps_are_refused(octets: bytes) -> None:
    with pytest.raises(MessageRejected):
        Codec(Ask | Tell).decode(octets)


@pytest.mark.parametrize(
    "head",
    [
        ["m", -1, 1, 1, 1, None],
        ["m", 1 << 63, 1, 1, 1, None],
        ["m", 1, 1, 1, 1, [5, []]],
        ["r", 1, 1, None, [[1, 1]] * 1025],
        ["f", 1, 1, 1, "x" * 501],
        ["x", 1, 1],
    ],
    ids=["negative", "large", "no slots", "long report", "long reason", "kind"],
)
def test_numbers_outside_their_range_are_refused(head: list[object]) -> None:
    with pytest.raises(MessageRejected, match="malformed envelope"):
        decode_head(msgspec.msgpack.encode(head))
