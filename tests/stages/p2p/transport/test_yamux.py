"""Yamux: both ends against each other with data split anywhere, known frames, protocol violations."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.transport.yamux import (
    INITIAL_WINDOW,
    MAX_FRAME_DATA,
    EventKind,
    GoAwayCode,
    YamuxError,
    YamuxEvent,
    YamuxSession,
)

SYN, ACK, FIN, RST = 1, 2, 4, 8


def frame(kind: int, flags: int, stream: int, length: int, body: bytes = b"", version: int = 0) -> bytes:
    return struct.pack(">BBHII", version, kind, flags, stream, length) + body


def taken(session: YamuxSession) -> bytes:
    return b"".join(session.data_to_send())


def pair() -> tuple[YamuxSession, YamuxSession]:
    return YamuxSession(initiator=True), YamuxSession(initiator=False)


def opened() -> tuple[YamuxSession, int]:
    """Return a responder with one stream of the other end."""
    session = YamuxSession(initiator=False)
    assert session.receive_data(frame(1, SYN, 1, 0)) == [YamuxEvent(EventKind.OPENED, 1)]
    assert taken(session) == frame(1, ACK, 1, 0)
    return session, 1


def test_the_bytes_on_the_wire() -> None:
    ours, theirs = pair()
    assert (ours.open_stream(), ours.open_stream(), theirs.open_stream()) == (1, 3, 2)
    assert taken(ours) == frame(1, SYN, 1, 0) + frame(1, SYN, 3, 0)
    assert ours.send_data(1, memoryview(b"hello")) == 5
    ours.close_stream(1)
    ours.reset_stream(3)
    ours.ping(7)
    ours.go_away(GoAwayCode.PROTOCOL_ERROR)
    assert taken(ours) == b"".join(
        (frame(0, 0, 1, 5, b"hello"), frame(1, FIN, 1, 0), frame(1, RST, 3, 0), frame(2, SYN, 0, 7), frame(3, 0, 0, 1))
    )
    assert ours.data_to_send() == []


Action = tuple[str, int]
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["open", "send", "read", "end", "reset"]), st.integers(0, 400_000)), max_size=40
)


class YamuxEnd:
    """One end of a connection with an application: bytes sent and received on each stream."""

    def __init__(self, session: YamuxSession) -> None:
        self.session = session
        self.sent: dict[int, int] = {}
        self.received: dict[int, int] = {}
        self.unread: dict[int, int] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()

    def act(self, action: str, size: int) -> None:
        streams = sorted(self.session.streams)
        if action == "open":
            self.sent[self.session.open_stream()] = 0
        if not streams:
            return
        stream = streams[size % len(streams)]
        if action == "send":
            self.sent[stream] = self.sent.get(stream, 0) + self.session.send_data(stream, memoryview(bytes(size)))
        elif action == "read":
            self.session.acknowledge_data(stream, self.unread.pop(stream, 0))
        elif action == "end":
            self.session.close_stream(stream)
        else:
            self.session.reset_stream(stream)
            self.reset.add(stream)

    def handle_events(self, events: list[YamuxEvent]) -> None:
        for event in events:
            if event.kind is EventKind.DATA:
                self.received[event.stream_id] = self.received.get(event.stream_id, 0) + len(event.data)
                self.unread[event.stream_id] = self.unread.get(event.stream_id, 0) + len(event.data)
                assert self.unread[event.stream_id] <= INITIAL_WINDOW
            elif event.kind is EventKind.ENDED:
                self.ended.add(event.stream_id)
            elif event.kind is EventKind.RESET:
                self.reset.add(event.stream_id)


@given(ACTIONS, ACTIONS, st.lists(st.integers(1, 50_000), max_size=15))
def test_two_ends_agree_however_the_bytes_are_split(one: list[Action], two: list[Action], sizes: list[int]) -> None:
    ours, theirs = (YamuxEnd(session) for session in pair())
    turns = max(len(one), len(two))
    for turn in range(turns):
        for end, actions in ((ours, one), (theirs, two)):
            if turn < len(actions):
                end.act(*actions[turn])
        for writer, reader in ((ours, theirs), (theirs, ours)):
            raw = taken(writer.session)
            for size in [*sizes, len(raw)]:
                reader.handle_events(reader.session.receive_data(raw[:size]))
                raw = raw[size:]
    for writer, reader in ((ours, theirs), (theirs, ours)):
        reader.handle_events(reader.session.receive_data(taken(writer.session)))
    reset = ours.reset | theirs.reset
    for writer, reader in ((ours, theirs), (theirs, ours)):
        for stream, size in writer.sent.items():
            assert reader.received.get(stream, 0) == size or stream in reset
    assert set(ours.session.streams) - reset == set(theirs.session.streams) - reset


def test_windows_bound_sending_and_receiving() -> None:
    ours, theirs = pair()
    stream = ours.open_stream()
    data = memoryview(bytes(2 * INITIAL_WINDOW))
    sent = 0
    while size := ours.send_data(stream, data[sent:]):
        assert size <= MAX_FRAME_DATA
        sent += size
    assert sent == INITIAL_WINDOW and ours.send_window(stream) == 0
    received = [event for event in theirs.receive_data(taken(ours)) if event.kind is EventKind.DATA]
    assert sum(len(event.data) for event in received) == INITIAL_WINDOW
    taken(theirs)
    theirs.acknowledge_data(stream, INITIAL_WINDOW // 2 - 1)
    assert theirs.data_to_send() == []
    theirs.acknowledge_data(stream, 1)
    assert ours.receive_data(taken(theirs)) == [YamuxEvent(EventKind.WINDOW, stream)]
    assert ours.send_window(stream) == INITIAL_WINDOW // 2


@pytest.mark.parametrize(
    "raw",
    [
        frame(0, 0, 1, 0, version=1),
        frame(4, 0, 0, 0),
        frame(0, SYN, 7, INITIAL_WINDOW + 1),
        frame(0, 0, 1, INITIAL_WINDOW + 1),
        frame(0, 0, 5, (1 << 32) - 1),
        frame(0, 0, 1, INITIAL_WINDOW, bytes(INITIAL_WINDOW)) + frame(0, 0, 1, 1),
        frame(9, 0xFFFF, 1, 1),
        frame(1, SYN, 1, 0),
        frame(1, SYN, 2, 0),
        frame(1, SYN, 0, 0),
        frame(1, 0, 1, (1 << 32) - 1),
        frame(1, FIN, 1, 0) + frame(0, 0, 1, 1, b"x"),
        b"GET / HTTP/1.1",
    ],
)
def test_violations_raise(raw: bytes) -> None:
    """Those in a header are detected before the frame's data comes."""
    session, _ = opened()
    with pytest.raises(YamuxError):
        session.receive_data(raw)


def test_data_frames_may_carry_flags() -> None:
    session = YamuxSession(initiator=False)
    assert session.receive_data(frame(0, SYN | FIN, 3, 2, b"hi")) == [
        YamuxEvent(EventKind.OPENED, 3),
        YamuxEvent(EventKind.DATA, 3, b"hi"),
        YamuxEvent(EventKind.ENDED, 3),
    ]
    assert session.receive_data(frame(0, RST, 3, 4, b"gone") + frame(2, SYN, 0, 9)) == [YamuxEvent(EventKind.RESET, 3)]
    assert taken(session) == frame(1, ACK, 3, 0) + frame(2, ACK, 0, 9)


def test_inbound_streams_are_bounded() -> None:
    session = YamuxSession(initiator=False, max_inbound_streams=2)
    assert session.receive_data(frame(1, SYN, 1, 0) + frame(1, SYN, 3, 0) + frame(1, SYN, 5, 0)) == [
        YamuxEvent(EventKind.OPENED, 1),
        YamuxEvent(EventKind.OPENED, 3),
    ]
    assert taken(session) == frame(1, ACK, 1, 0) + frame(1, ACK, 3, 0) + frame(1, RST, 5, 0)
    session.receive_data(frame(1, RST, 1, 0))
    assert session.receive_data(frame(1, SYN, 7, 0)) == [YamuxEvent(EventKind.OPENED, 7)]
    for _ in range(5):
        session.open_stream()
    assert session.receive_data(frame(1, SYN, 9, 0)) == []


def test_ping_and_go_away() -> None:
    session, stream = opened()
    assert session.receive_data(frame(2, ACK, 0, 5)) == []
    assert session.receive_data(frame(3, 0, 0, 2)) == [YamuxEvent(EventKind.GO_AWAY)]
    with pytest.raises(YamuxError, match="no new streams"):
        session.open_stream()
    assert session.send_data(stream, memoryview(b"still")) == 5


def test_small_frames_are_counted() -> None:
    session = YamuxSession(initiator=False)
    session.receive_data(struct.pack(">BBHII", 0, 0, 1, 1, 2000) + bytes(2000))
    assert session.small_frames == 1, "opens a stream"
    session.receive_data(struct.pack(">BBHII", 0, 0, 0, 1, 2000) + bytes(2000))
    assert session.small_frames == 1
    session.receive_data(struct.pack(">BBHII", 0, 0, 0, 1, 1000) + bytes(1000))
    session.receive_data(struct.pack(">BBHII", 0, 0, 0, 3, 2000) + bytes(2000))
    assert session.small_frames == 3, "little data, and data for no stream"
