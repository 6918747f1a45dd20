"""Keccak-256 by the fastest installed library."""

from collections.abc import Callable

try:
    from sha3 import keccak_256 as _fast
except ImportError:
    _fast = None


def _with_pycryptodome() -> Callable[[bytes], bytes]:
    from Crypto.Hash import keccak

    def keccak256(data: bytes) -> bytes:
        return keccak.new(digest_bits=256, data=data).digest()

    return keccak256


def _with_pysha3() -> Callable[[bytes], bytes]:
    fast = _fast

    def keccak256(data: bytes) -> bytes:
        digest: bytes = fast(data).digest()
        return digest

    return keccak256


keccak256: Callable[[bytes], bytes] = _with_pycryptodome() if _fast is None else _with_pysha3()
