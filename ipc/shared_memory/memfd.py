"""Memory shared with processes that are forked later: sealed memfds, without a name, which never shrink."""

import ctypes
import fcntl
import mmap
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.restype = ctypes.c_int
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_view_of = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of.restype = ctypes.py_object
_view_of.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]

# Python's `mmap` duplicates the descriptor and hides the copy. A forked child closes every descriptor it does not know,
# so collecting the mmap object there would close whatever descriptor has that number by then.
_MAP_FAILED = ctypes.c_void_p(-1).value
_WRITABLE = 0x200
_PAGE = mmap.PAGESIZE


def sealed_memfd(name: str, size: int) -> int:
    """Return the descriptor of an anonymous file of `size` zero bytes whose size cannot change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


class SharedMemory:
    """`size` bytes, rounded up to whole pages, shared with every process that is forked afterwards.

    `octets` and `words` are the same memory as bytes and as u64; loads and stores of words are atomic. Raises
    OSError when it cannot be mapped."""

    def __init__(self, name: str, size: int) -> None:
        self.size = -(-size // _PAGE) * _PAGE
        self.fd = sealed_memfd(name, self.size)
        address = _libc.mmap(None, self.size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.fd, 0)
        if address == _MAP_FAILED:
            raise OSError(ctypes.get_errno(), f"cannot map {self.size} bytes of shared memory for {name}")
        self._address = address
        self.octets: memoryview = _view_of(address, self.size, _WRITABLE)
        self.words: memoryview = self.octets.cast("Q")

    def close(self) -> None:
        """Unmap the memory in this process; the views must not be used after that."""
        if self.fd >= 0:
            self.words.release()
            self.octets.release()
            _libc.munmap(self._address, self.size)
            os.close(self.fd)
            self.fd = -1
