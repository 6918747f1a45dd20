"""Yamux: many streams over one byte stream, each with a receive window.

Sans-I/O: a `YamuxSession` takes received bytes, returns events, and leaves bytes to send in `data_to_send`. It buffers
no stream data, and windows stay at the initial 256 KiB. A violation raises YamuxError and ends the session.
Source: https://github.com/hashicorp/yamux/blob/master/spec.md"""

import struct
from dataclasses import dataclass, field
from enum import Enum, IntEnum, IntFlag, auto
from typing import NamedTuple

PROTOCOL = "/yamux/1.0.0"
INITIAL_WINDOW = 256 * 1024
MAX_FRAME_DATA = 65507
"""Data bytes of one frame, so that frame and header fill one noise message."""
_HEADER = struct.Struct(">BBHII")
_SMALL_FRAME_BYTES = 1024
_MAX_WINDOW = (1 << 32) - 1
_MAX_STREAM_ID = (1 << 32) - 2


class YamuxError(ValueError):
    """The remote end violated the protocol."""


class FrameType(IntEnum):
    """Frame types."""

    DATA = 0
    WINDOW_UPDATE = 1
    PING = 2
    GO_AWAY = 3


class FrameFlag(IntFlag):
    SYN = 1
    ACK = 2
    FIN = 4
    RST = 8


class GoAwayCode(IntEnum):
    NORMAL = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2


class EventKind(Enum):
    """What the remote end did: open, close its direction of, or reset a stream, send data or window, or go away."""

    OPENED = auto()
    DATA = auto()
    ENDED = auto()
    RESET = auto()
    WINDOW = auto()
    GO_AWAY = auto()


class YamuxEvent(NamedTuple):
    """What the remote end did, to which stream."""

    kind: EventKind
    stream_id: int = 0
    data: bytes = b""


@dataclass(slots=True)
class _Stream:
    send_window: int = INITIAL_WINDOW
    receive_window: int = INITIAL_WINDOW
    unacknowledged: int = 0
    fin_sent: bool = False
    fin_received: bool = False


@dataclass(slots=True)
class _DataFrame:
    """The data frame being received: how many of its bytes are still to come, and whether it carries FIN."""

    stream_id: int
    remaining: int
    has_fin: bool


@dataclass
class YamuxSession:
    """One end of a yamux connection; the initiator's streams have odd ids.

    At most `max_inbound_streams` streams of the remote end are open at once, further ones are reset. `small_frames`
    counts received frames with little or no data, which cost more to handle than to send."""

    initiator: bool
    max_inbound_streams: int = 128
    streams: dict[int, _Stream] = field(default_factory=dict)
    remote_go_away: bool = False
    small_frames: int = 0
    _next_stream_id: int = 0
    _inbound_count: int = 0
    _header: bytes = b""
    _data_frame: _DataFrame | None = None
    _out: list[bytes | memoryview] = field(default_factory=list)
    _events: list[YamuxEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._next_stream_id = 1 if self.initiator else 2

    def data_to_send(self) -> list[bytes | memoryview]:
        """Return the bytes to send, in order, and clears them."""
        out, self._out = self._out, []
        return out

    def open_stream(self) -> int:
        """Open a stream and return its id. Raises YamuxError when the remote end went away or the ids are used up."""
        if self.remote_go_away or self._next_stream_id > _MAX_STREAM_ID:
            raise YamuxError("the connection accepts no new streams")
        stream, self._next_stream_id = self._next_stream_id, self._next_stream_id + 2
        self.streams[stream] = _Stream()
        self._send_header(FrameType.WINDOW_UPDATE, FrameFlag.SYN, stream, 0)
        return stream

    def send_window(self, stream: int) -> int:
        """Return the number of bytes that may be sent on the stream now."""
        result = self.streams.get(stream)
        return 0 if result is None or result.fin_sent else result.send_window

    def send_data(self, stream: int, data: memoryview) -> int:
        """Send as much as the window and one frame allow; returns the number of bytes sent."""
        size = min(len(data), self.send_window(stream), MAX_FRAME_DATA)
        if size:
            self.streams[stream].send_window -= size
            self._send_header(FrameType.DATA, FrameFlag(0), stream, size)
            self._out.append(data[:size])
        return size

    def acknowledge_data(self, stream: int, size: int) -> None:
        """Return window for bytes that the application has read; the update is sent once it covers half a window."""
        result = self.streams.get(stream)
        if result is None or result.fin_received:
            return
        result.unacknowledged += size
        if result.unacknowledged >= INITIAL_WINDOW // 2:
            self._send_header(FrameType.WINDOW_UPDATE, FrameFlag(0), stream, result.unacknowledged)
            result.receive_window += result.unacknowledged
            result.unacknowledged = 0

    def close_stream(self, stream: int) -> None:
        """Send FIN: no more data on this stream from us."""
        result = self.streams.get(stream)
        if result is None or result.fin_sent:
            return
        result.fin_sent = True
        self._send_header(FrameType.WINDOW_UPDATE, FrameFlag.FIN, stream, 0)
        self._remove_if_closed(stream, result)

    def reset_stream(self, stream: int) -> None:
        """Reset the stream: both directions end."""
        if stream in self.streams:
            self._remove_stream(stream)
            self._send_header(FrameType.WINDOW_UPDATE, FrameFlag.RST, stream, 0)

    def ping(self, value: int) -> None:
        """Send a ping with a 32-bit value."""
        self._send_header(FrameType.PING, FrameFlag.SYN, 0, value)

    def go_away(self, code: GoAwayCode = GoAwayCode.NORMAL) -> None:
        self._send_header(FrameType.GO_AWAY, FrameFlag(0), 0, code)

    def receive_data(self, data: bytes) -> list[YamuxEvent]:
        """Consume bytes of the remote end and return the events they cause. Raises YamuxError on a violation."""
        offset = 0
        while offset < len(data):
            if self._data_frame is not None:
                offset = self._receive_frame_data(self._data_frame, data, offset)
                continue
            part = data[offset : offset + _HEADER.size - len(self._header)]
            offset += len(part)
            self._header += part
            if len(self._header) == _HEADER.size:
                header, self._header = self._header, b""
                self._receive_header(header)
        events, self._events = self._events, []
        return events

    def _receive_frame_data(self, body: _DataFrame, data: bytes, offset: int) -> int:
        end = min(len(data), offset + body.remaining)
        body.remaining -= end - offset
        if body.stream_id in self.streams:
            self._events.append(YamuxEvent(EventKind.DATA, body.stream_id, data[offset:end]))
        if not body.remaining:
            self._data_frame = None
            if body.has_fin:
                self._fin_received(body.stream_id)
        return end

    def _receive_header(self, header: bytes) -> None:
        version, kind, bits, stream, length = _HEADER.unpack(header)
        if version != 0:
            raise YamuxError(f"version {version}")
        flags = FrameFlag(bits & 0xF)
        if kind != FrameType.DATA or length < _SMALL_FRAME_BYTES or stream not in self.streams:
            self.small_frames += 1
        if kind in (FrameType.DATA, FrameType.WINDOW_UPDATE):
            self._receive_stream_frame(kind, flags, stream, length)
        elif kind == FrameType.PING:
            if FrameFlag.SYN in flags:
                self._send_header(FrameType.PING, FrameFlag.ACK, 0, length)
        elif kind == FrameType.GO_AWAY:
            self.remote_go_away = True
            self._events.append(YamuxEvent(EventKind.GO_AWAY))
        else:
            raise YamuxError(f"frame of type {kind}")

    def _receive_stream_frame(self, kind: int, flags: FrameFlag, stream: int, length: int) -> None:
        if FrameFlag.SYN in flags:
            self._accept_stream(stream)
        result = self.streams.get(stream)
        if FrameFlag.RST in flags:
            if result is not None:
                self._remove_stream(stream)
                self._events.append(YamuxEvent(EventKind.RESET, stream))
            result = None
        if kind == FrameType.DATA:
            self._start_data_frame(stream, result, length, flags)
            return
        if result is not None and length:
            result.send_window += length
            if result.send_window > _MAX_WINDOW:
                raise YamuxError("window exceeds 32 bits")
            self._events.append(YamuxEvent(EventKind.WINDOW, stream))
        if FrameFlag.FIN in flags:
            self._fin_received(stream)

    def _start_data_frame(self, stream: int, value: _Stream | None, length: int, flags: FrameFlag) -> None:
        if value is not None and length:
            if value.fin_received:
                raise YamuxError("data after FIN")
            if length > value.receive_window:
                raise YamuxError(f"{length} bytes exceed the window of {value.receive_window}")
            value.receive_window -= length
        # Data for a stream that we have reset is still in flight; the remote end may send as much as its window then
        # allowed.
        elif length > INITIAL_WINDOW:
            raise YamuxError(f"{length} bytes for an unknown stream")
        is_last = FrameFlag.FIN in flags
        if length:
            self._data_frame = _DataFrame(stream, length, is_last)
        elif is_last:
            self._fin_received(stream)

    def _accept_stream(self, stream: int) -> None:
        if stream == 0 or stream % 2 == self._next_stream_id % 2:
            raise YamuxError(f"stream id {stream} has the wrong parity")
        if stream in self.streams:
            raise YamuxError(f"stream {stream} is already open")
        if self._inbound_count >= self.max_inbound_streams:
            self._send_header(FrameType.WINDOW_UPDATE, FrameFlag.RST, stream, 0)
            return
        self._inbound_count += 1
        self.streams[stream] = _Stream()
        self._send_header(FrameType.WINDOW_UPDATE, FrameFlag.ACK, stream, 0)
        self._events.append(YamuxEvent(EventKind.OPENED, stream))

    def _fin_received(self, stream: int) -> None:
        result = self.streams.get(stream)
        if result is None or result.fin_received:
            return
        result.fin_received = True
        self._events.append(YamuxEvent(EventKind.ENDED, stream))
        self._remove_if_closed(stream, result)

    def _remove_if_closed(self, stream: int, value: _Stream) -> None:
        if value.fin_sent and value.fin_received:
            self._remove_stream(stream)

    def _remove_stream(self, stream: int) -> None:
        del self.streams[stream]
        if stream % 2 != self._next_stream_id % 2:
            self._inbound_count -= 1

    def _send_header(self, kind: FrameType, flags: FrameFlag, stream: int, length: int) -> None:
        self._out.append(_HEADER.pack(0, kind, flags, stream, length))
