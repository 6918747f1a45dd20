"""Headers and payloads: what does not have the declared shape is rejected."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.shared_memory.arena import Descriptor
from rollup_node.ipc.wire.codec import (
    Codec,
    Envelope,
    MessageHeader,
    MessageRejected,
    TaskRejected,
    WorkerReport,
    codec_of,
    decode_header,
    encode_header,
)
from tests.ipc.messages import EchoRequest, HeadState, HealthState

words = st.integers(0, (1 << 63) - 1)
descriptors = st.builds(Descriptor, words, st.lists(st.tuples(words, words), min_size=1, max_size=3).map(tuple))
headers = st.one_of(
    st.builds(Envelope, words, words, words, words, st.none() | descriptors),
    st.builds(WorkerReport, words, words, st.none() | words, st.lists(st.tuples(words, words), max_size=3).map(tuple)),
    st.builds(TaskRejected, words, words, words, st.text(max_size=100)),
)


@given(headers)
def test_a_header_survives_the_round_trip(header: MessageHeader) -> None:
    assert decode_header(encode_header(header)) == header


@given(st.one_of(st.builds(EchoRequest, words, st.binary()), st.builds(HealthState, st.lists(st.text()).map(tuple))))
def test_a_message_survives_the_round_trip(message: EchoRequest | HealthState) -> None:
    codec = Codec(EchoRequest | HealthState)
    assert codec.decode(codec.encode(message)) == message


def test_encoding_a_message_of_another_channel_is_a_bug() -> None:
    with pytest.raises(TypeError, match="this channel carries EchoRequest, HealthState, not HeadState"):
        Codec(EchoRequest | HealthState).encode(HeadState(1))


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        b"\x92\xabEchoRequest\xdd\xff\xff\xff\xff",
        b"\x93\xabEchoRequest\x01\xc6\xff\xff\xff\xff",
        b"\x93\xabHealthState\xdd\xff\xff\xff\xff\xc0",
        b"\x93\xabHealthState\x91\xa1\xff\xc0",
        b"\x92\xabEchoRequest\xa11",
        b"\x92\xabEchoRequest\x01trailing",
    ],
    ids=["empty", "opcode", "deep", "array", "bytes", "list", "utf8", "type", "trailing"],
)
def test_malformed_payloads_are_rejected(octets: bytes) -> None:
    with pytest.raises(MessageRejected):
        Codec(EchoRequest | HealthState).decode(octets)


@pytest.mark.parametrize(
    "header",
    [
        ["m", -1, 1, 1, 1, None],
        ["m", 1 << 63, 1, 1, 1, None],
        ["m", 1, 1, 1, 1, [5, []]],
        ["r", 1, 1, None, [[1, 1]] * 1025],
        ["f", 1, 1, 1, "x" * 501],
        ["x", 1, 1],
    ],
    ids=["negative", "large", "no chunks", "long report", "long reason", "kind"],
)
def test_numbers_outside_their_range_are_rejected(header: list[object]) -> None:
    with pytest.raises(MessageRejected, match="malformed header"):
        decode_header(msgspec.msgpack.encode(header))


def test_the_codec_of_a_union_is_made_once() -> None:
    assert codec_of(HeadState | HealthState) is codec_of(HeadState | HealthState)
    assert codec_of(HeadState | HealthState) is not codec_of(HeadState)
