"""The stream calls of Google's Brotli decoder, which the extension module of the package `brotli` exports.

The module itself has no call that takes input and output in sizes of the caller [Z8, Z9]. Its wheels exist for glibc
and musl, unlike those of the binding that declares these calls itself."""

from typing import Any

import _brotli
from cffi import FFI

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
