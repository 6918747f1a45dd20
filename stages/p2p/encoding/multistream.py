"""Multistream-select 1.0: two ends agree on a protocol by its name, one length-prefixed line each.

Sans-I/O: bytes come in by `receive_data` and go out by `data_to_send`. Source: https://github.com/multiformats/multistream-select"""

from collections.abc import Callable, Sequence

from rollup_node.stages.p2p.encoding import varint

HEADER = "/multistream/1.0.0"
NOT_AVAILABLE = "na"
MAX_LINE_BYTES = 1024
MAX_PROPOSALS = 64


class MultistreamError(ValueError):
    """The remote end does not support multistream-select, or the two ends have no protocol in common."""


def encode_line(text: str) -> bytes:
    raw = text.encode() + b"\n"
    return varint.encode(len(raw)) + raw


class _Negotiation:
    """State that both roles share: input buffer, output buffer, and the selected protocol."""

    def __init__(self) -> None:
        self.selected: str | None = None
        self._buffer = bytearray()
        self._out = bytearray()
        self._header_received = False

    @property
    def trailing_data(self) -> bytes:
        """Bytes received after the negotiation; they belong to the selected protocol."""
        return bytes(self._buffer)

    def data_to_send(self) -> bytes:
        """Return the bytes to send and clears them."""
        out, self._out = bytes(self._out), bytearray()
        return out

    def receive_data(self, data: bytes) -> str | None:
        """Consume bytes and return the protocol once it is selected. Raises MultistreamError."""
        self._buffer += data
        while self.selected is None:
            line = self._next_line()
            if line is None:
                return None
            if self._header_received:
                self._handle_line(line)
            elif line != HEADER:
                raise MultistreamError(f"the remote end sent {line[:60]!r} instead of the multistream header")
            self._header_received = True
        return self.selected

    def _next_line(self) -> str | None:
        try:
            result = varint.decode(self._buffer)
        except varint.VarintError as error:
            raise MultistreamError(str(error)) from None
        if result is None:
            return None
        length, start = result
        # Until the header has come, the other end may be anything, so no more than the header's length is buffered
        # for it.
        if not 0 < length <= (MAX_LINE_BYTES if self._header_received else len(HEADER) + 1):
            raise MultistreamError(f"line of {length} bytes")
        if len(self._buffer) < start + length:
            return None
        raw = bytes(self._buffer[start : start + length])
        del self._buffer[: start + length]
        if raw[-1:] != b"\n":
            raise MultistreamError("line without a newline")
        return raw[:-1].decode(errors="replace")

    def _handle_line(self, line: str) -> None:
        """Handle a line after the header; each role has its own."""
        raise AssertionError(line)


class Initiator(_Negotiation):
    """The end that opens the stream; it proposes protocols in order of preference, the first one with the header."""

    def __init__(self, protocols: Sequence[str]) -> None:
        super().__init__()
        self._protocols = list(protocols)
        self._out += encode_line(HEADER) + encode_line(self._protocols[0])

    def _handle_line(self, line: str) -> None:
        if line == self._protocols[0]:
            self.selected = line
            return
        if line != NOT_AVAILABLE:
            raise MultistreamError(f"proposed {self._protocols[0]}, the remote end answered {line[:60]!r}")
        declined = self._protocols.pop(0)
        if not self._protocols:
            raise MultistreamError(f"the remote end does not support {declined}")
        self._out += encode_line(self._protocols[0])


class Responder(_Negotiation):
    """The end that accepts the stream; it answers a proposal by its name if it is `supported`, else by `na`."""

    def __init__(self, supported: Callable[[str], bool]) -> None:
        super().__init__()
        self._supported = supported
        self._proposals = 0
        self._out += encode_line(HEADER)

    def _handle_line(self, line: str) -> None:
        if self._supported(line):
            self.selected = line
            self._out += encode_line(line)
            return
        self._proposals += 1
        if self._proposals >= MAX_PROPOSALS:
            raise MultistreamError(f"none of {MAX_PROPOSALS} proposals is supported")
        self._out += encode_line(NOT_AVAILABLE)
