"""Brotli by Google's C decoder, fed and pulled with op-node's sizes, so that damage cuts the same output [Z8, Z9].

The decoder's stream calls are those that the extension module of the package `brotli` exports: the module itself has no
call that takes input and output in sizes of the caller. Its wheels exist for glibc and musl, unlike those of the
binding that declares these calls itself."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import _brotli
from cffi import FFI

from rollup_node.stages.derivation.codec.zlib_stream import CORRUPT, CUT_OFF, END

ffi: Any = FFI()
ffi.cdef("""
    typedef enum {
        BROTLI_DECODER_RESULT_ERROR, BROTLI_DECODER_RESULT_SUCCESS,
        BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT, BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT
    } BrotliDecoderResult;
    typedef struct BrotliDecoderStateStruct BrotliDecoderState;
    BrotliDecoderState* BrotliDecoderCreateInstance(void*, void*, void*);
    void BrotliDecoderDestroyInstance(BrotliDecoderState*);
    BrotliDecoderResult BrotliDecoderDecompressStream(
        BrotliDecoderState*, size_t*, const uint8_t**, size_t*, uint8_t**, size_t*);
    int BrotliDecoderHasMoreOutput(const BrotliDecoderState*);
    int BrotliDecoderIsFinished(const BrotliDecoderState*);
""")
lib: Any = ffi.dlopen(_brotli.__file__)


FIRST_INPUT = 4095
"""Bytes of the first piece of input: a buffer of 4,096 without the version byte."""
INPUT = 32768
JUNK = "bytes after the end of the compressed stream"
_CHUNK = 1 << 20

Data: TypeAlias = "bytes | memoryview"

_allocate = ffi.new_allocator(should_clear_after_alloc=False)


class _Decoder:
    """A decoder and its input; `unread` is the number of input bytes that are left."""

    def __init__(self, data: Data) -> None:
        self.unread = len(data)
        self._decoder = ffi.gc(
            lib.BrotliDecoderCreateInstance(ffi.NULL, ffi.NULL, ffi.NULL), lib.BrotliDecoderDestroyInstance
        )
        self._room = _allocate("uint8_t[]", 1)
        self._next_in = ffi.new("uint8_t **")
        self._left_in = ffi.new("size_t *")
        self._next_out = ffi.new("uint8_t **")
        self._left_out = ffi.new("size_t *")
        self._data = ffi.from_buffer("uint8_t[]", data)
        self._offset = 0

    def has_output(self) -> bool:
        return bool(lib.BrotliDecoderHasMoreOutput(self._decoder))

    def is_finished(self) -> bool:
        return bool(lib.BrotliDecoderIsFinished(self._decoder))

    def step(self, available: int, size: int) -> tuple[int, bytes, int]:
        """Feed the next `available` bytes: the result code, at most `size` bytes of output, and the bytes not read."""
        if len(self._room) < size:
            self._room = _allocate("uint8_t[]", size)
        self._next_in[0] = self._data + self._offset
        self._left_in[0] = available
        self._next_out[0] = self._room
        self._left_out[0] = size
        result: int = lib.BrotliDecoderDecompressStream(
            self._decoder, self._left_in, self._next_in, self._left_out, self._next_out, ffi.NULL
        )
        unread: int = self._left_in[0]
        self._offset += available - unread
        self.unread -= available - unread
        return result, bytes(ffi.buffer(self._room, size - self._left_out[0])), unread


def whole_output(data: Data, limit: int, slack: int) -> bytes | None:
    """Return the output of a complete stream, or the first `limit + slack` bytes of a longer one.

    None when it must be read piece by piece, as when something is behind it. `data` is without the version byte."""
    decoder = _Decoder(data)
    parts: list[bytes] = []
    total = 0
    result = lib.BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT
    while result == lib.BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT and total < limit + slack:
        result, part, _ = decoder.step(decoder.unread, min(_CHUNK, limit + slack - total))
        parts.append(part)
        total += len(part)
    complete = result == lib.BROTLI_DECODER_RESULT_SUCCESS and not decoder.unread
    return b"".join(parts) if complete or total >= limit + slack else None


def decoded_pieces(data: Data) -> Iterator[bytes]:
    """Yield the output of a sound stream, in pieces of at most 1 MiB."""
    decoder = _Decoder(data)
    result = lib.BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT
    while result == lib.BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT:
        result, piece, _ = decoder.step(decoder.unread, _CHUNK)
        yield piece


class BrotliSource:
    """The stream piece by piece, as op-node's decoder hands it out. `data` is without the version byte."""

    def __init__(self, data: Data) -> None:
        self._decoder = _Decoder(data)
        self._next_size = FIRST_INPUT
        self._available = 0

    def _feed(self) -> bool:
        """Make the next piece of input available."""
        self._available = min(self._next_size, self._decoder.unread)
        self._next_size = INPUT
        return self._available > 0

    def read(self, size: int) -> tuple[bytes, str | None]:
        """At most `size` bytes, with the final status if the decoder reports it with them."""
        if not self._available and not self._decoder.has_output() and not self._feed():
            return b"", END if self._decoder.is_finished() else CUT_OFF
        while True:
            result, output, self._available = self._decoder.step(self._available, min(size, _CHUNK))
            if result == lib.BROTLI_DECODER_RESULT_SUCCESS:
                return output, JUNK if self._available else None
            if result == lib.BROTLI_DECODER_RESULT_ERROR:
                return output, CORRUPT
            if result == lib.BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT or output:
                return output, None
            if not self._feed():
                return b"", CUT_OFF
