"""Multistream-select 1.0: two ends agree on a protocol by its name, one encode_line a line. Sans-I/O: bytes in by
`receive`, bytes out by `take`; what follows the agreement is left in `rest`."""

from collections.abc import Callable, Sequence

from rollup_node.stages.p2p.encoding import varint

HEADER = "/multistream/1.0.0"
NOT_AVAILABLE = "na"
MAX_LINE_BYTES = 1024
MAX_PROPOSALS = 64


class MultistreamError(ValueError):
    """The other end does not speak multistream-select, or there is no protocol in common."""


def encode_line(text: str) -> bytes:
    """A line with its length."""
    raw = text.encode() + b"\n"
    return varint.encode(len(raw)) + raw


class _Negotiation:
    """What both roles share: reading lines, bytes to send, the outcome."""

    def __init__(self) -> None:
        self.selected: str | None = None
        self._buffer = bytearray()
        self._out = bytearray()
        self._header_received = False

    @property
    def trailing_data(self) -> bytes:
        """Bytes that belong to the selected protocol."""
        return bytes(self._buffer)

    def data_to_send(self) -> bytes:
        """Bytes to send, once."""
        out, self._out = bytes(self._out), bytearray()
        return out

    def receive_data(self, data: bytes) -> str | None:
        """Takes bytes from the other end; the selected protocol as soon as there is one."""
        self._buffer += data
        while self.selected is None:
            line = self._next_line()
            if line is None:
                return None
            if self._header_received:
                self._handle_line(line)
            elif line != HEADER:
                raise MultistreamError(f"the other end opens with {line[:60]!r}")
            self._header_received = True
        return self.selected

    def _next_line(self) -> str | None:
        try:
            found = varint.decode(self._buffer)
        except varint.VarintError as error:
            raise MultistreamError(str(error)) from None
        if found is None:
            return None
        length, start = found
        if not 0 < length <= (MAX_LINE_BYTES if self._header_received else len(HEADER) + 1):
            raise MultistreamError(f"line of {length} bytes")
        if len(self._buffer) < start + length:
            return None
        raw = bytes(self._buffer[start : start + length])
        del self._buffer[: start + length]
        if raw[-1:] != b"\n":
            raise MultistreamError("line without an end")
        return raw[:-1].decode(errors="replace")

    def _handle_line(self, line: str) -> None:
        """Acts on a line after the greeting; the role decides."""
        raise AssertionError(line)


class Initiator(_Negotiation):
    """The end that wants a protocol: proposes them in order of preference, the first together with the greeting."""

    def __init__(self, protocols: Sequence[str]) -> None:
        super().__init__()
        if not protocols:
            raise MultistreamError("nothing to propose")
        self._protocols = list(protocols)
        self._out += encode_line(HEADER) + encode_line(self._protocols[0])

    def _handle_line(self, line: str) -> None:
        if line == self._protocols[0]:
            self.selected = line
            return
        if line != NOT_AVAILABLE:
            raise MultistreamError(f"proposed {self._protocols[0]}, the other end answered {line[:60]!r}")
        refused = self._protocols.pop(0)
        if not self._protocols:
            raise MultistreamError(f"the other end does not speak {refused}")
        self._out += encode_line(self._protocols[0])


class Responder(_Negotiation):
    """The end that is asked: answers proposals until one is `supported`."""

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
            raise MultistreamError(f"{MAX_PROPOSALS} proposals, none of them supported")
        self._out += encode_line(NOT_AVAILABLE)
