"""Keccak-256 by safe-pysha3, or by pycryptodome, which is installed where that has no wheels and is much slower."""

from typing import Any


def hasher_of_pycryptodome(data: bytes = b"") -> Any:
    """Return a hash object that more data can be added to, as that of `keccak_256`."""
    from Crypto.Hash import keccak

    return keccak.new(digest_bits=256, data=data)


try:
    from sha3 import keccak_256 as keccak_256
except ImportError:
    keccak_256 = hasher_of_pycryptodome


def keccak256(data: bytes) -> bytes:
    digest: bytes = keccak_256(data).digest()
    return digest
