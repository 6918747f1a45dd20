"""Keccak-256 by the fastest installed library."""

from collections.abc import Callable
from typing import Any

try:
    from sha3 import keccak_256 as _fast
except ImportError:
    _fast = None


def implementation_of_pycryptodome() -> Callable[[bytes], bytes]:
    """Keccak-256 by pycryptodome, which is installed where safe-pysha3 has no wheels."""
    from Crypto.Hash import keccak

    def keccak256(data: bytes) -> bytes:
        return keccak.new(digest_bits=256, data=data).digest()

    return keccak256


def implementation_of_pysha3() -> Callable[[bytes], bytes]:
    """Keccak-256 by pysha3 or safe-pysha3, which is several times as fast."""
    fast = _fast

    def keccak256(data: bytes) -> bytes:
        digest: bytes = fast(data).digest()
        return digest

    return keccak256


class Keccak256:
    """Keccak-256 of data that comes in parts."""

    def __init__(self) -> None:
        if _fast is None:
            from Crypto.Hash import keccak

            self._hasher: Any = keccak.new(digest_bits=256)
        else:
            self._hasher = _fast()

    def update(self, part: bytes) -> None:
        self._hasher.update(part)

    def digest(self) -> bytes:
        """Return the hash of all parts, 32 bytes."""
        digest: bytes = self._hasher.digest()
        return digest


keccak256: Callable[[bytes], bytes] = implementation_of_pycryptodome() if _fast is None else implementation_of_pysha3()
