"""The C library's heap, where large blocks of bytes of one lifetime can keep freed memory of another resident."""

import ctypes

LARGE_BYTES = 1 << 20
_M_MMAP_THRESHOLD = -3


def map_large_blocks() -> bool:
    """Has the C library map each block of a megabyte or more by itself, so that its memory is given back as soon as it
    is freed; by default glibc stops doing so once such a block was freed. Returns whether the C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
