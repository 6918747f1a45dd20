"""The precompiles of signatures, hash functions, identity, BLAKE2 and modular exponentiation.

Signatures: recovery, and secp256r1 of RIP-7212 and EIP-7951. BLAKE2 compression: EIP-152. Modular exponentiation:
EIP-198, EIP-2565, EIP-7823, EIP-7883."""

import hashlib

from rollup_node.stages.protocol.secp256k1 import ORDER, recover_address
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt

_WORD = (1 << 64) - 1
_BLAKE2_START = (
    0x6A09E667F3BCC908,
    0xBB67AE8584CAA73B,
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
)
_BLAKE2_ORDER = tuple(
    tuple(int(digit, 16) for digit in row)
    for row in (
        "0123456789abcdef",
        "ea489fd61c02b753",
        "b8c052fdae367194",
        "7931dcbe265a40f8",
        "905724afe1bc683d",
        "2c6a0b834d75fe19",
        "c51fed4a0763928b",
        "db7ec13950f4862a",
        "6fe9b308c2d714a5",
        "a2847615fb9e3cd0",
    )
)
_BLAKE2_MIXES = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)


def words(data: bytes) -> int:
    """Return the length in words of 32 bytes, rounded up."""
    return (len(data) + 31) >> 5


def recover(data: bytes) -> bytes:
    """Return the address that signed a digest; empty for an invalid signature."""
    data = data[:128].ljust(128, b"\0")
    parity = int.from_bytes(data[32:64], "big") - 27
    r, s = int.from_bytes(data[64:96], "big"), int.from_bytes(data[96:128], "big")
    if parity not in (0, 1) or not 0 < r < ORDER or not 0 < s < ORDER:
        return b""
    address = recover_address(data[:32], data[64:128] + bytes((parity,)))
    return b"" if address is None else address.rjust(32, b"\0")


def sha256(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def ripemd160(data: bytes) -> bytes:
    """RIPEMD-160 from PyCryptodome, since hashlib lacks it with newer OpenSSL."""
    from Crypto.Hash import RIPEMD160

    return RIPEMD160.new(data).digest().rjust(32, b"\0")


def identity(data: bytes) -> bytes:
    """Return the input."""
    return data


def blake2_gas(data: bytes) -> int:
    """One gas per round. Raises ExceptionalHalt for a wrong input length."""
    if len(data) != 213:
        raise ExceptionalHalt("invalid blake2f input length")
    return int.from_bytes(data[:4], "big")


def blake2(data: bytes) -> bytes:
    """Return the BLAKE2b compression function with a given number of rounds.

    Raises ExceptionalHalt for a wrong flag."""
    if data[212] > 1:
        raise ExceptionalHalt("invalid blake2f final flag")
    numbers = [int.from_bytes(data[at : at + 8], "little") for at in range(4, 212, 8)]
    before, message, counters = numbers[:8], numbers[8:24], numbers[24:]
    v = [*before, *_BLAKE2_START]
    v[12] ^= counters[0]
    v[13] ^= counters[1]
    if data[212]:
        v[14] ^= _WORD
    for step in range(int.from_bytes(data[:4], "big")):
        order = _BLAKE2_ORDER[step % 10]
        for index, places in enumerate(_BLAKE2_MIXES):
            _mix(v, places, message[order[2 * index]], message[order[2 * index + 1]])
    return b"".join((before[i] ^ v[i] ^ v[i + 8]).to_bytes(8, "little") for i in range(8))


def _mix(v: list[int], places: tuple[int, int, int, int], x: int, y: int) -> None:
    a, b, c, d = places
    for word, first, second in ((x, 32, 24), (y, 16, 63)):
        v[a] = (v[a] + v[b] + word) & _WORD
        v[d] = _rotated(v[d] ^ v[a], first)
        v[c] = (v[c] + v[d]) & _WORD
        v[b] = _rotated(v[b] ^ v[c], second)


def _rotated(word: int, bits: int) -> int:
    return word >> bits | word << (64 - bits) & _WORD


_MAX_OPERAND = 1024


def gas_from_berlin(data: bytes) -> int:
    """Return the gas by EIP-2565."""
    base, exponent, modulus = _sizes(data)
    complexity = (max(base, modulus) + 7 >> 3) ** 2
    return max(200, complexity * _iterations(data, base, exponent, 8) // 3)


def gas_from_osaka(data: bytes) -> int:
    """Return the gas by EIP-7883. Raises ExceptionalHalt for operands above EIP-7823's limit."""
    base, exponent, modulus = _sizes(data)
    if max(base, exponent, modulus) > _MAX_OPERAND:
        raise ExceptionalHalt("modexp operand larger than 1024 bytes")
    widest = max(base, modulus)
    complexity = 16 if widest <= 32 else 2 * (widest + 7 >> 3) ** 2
    return max(500, complexity * _iterations(data, base, exponent, 16))


def modexp(data: bytes) -> bytes:
    """Return base ** exponent % modulus, in the length of the modulus."""
    base, exponent, modulus = _sizes(data)
    if modulus == 0:
        return b""
    divisor = _number(data, 96 + base + exponent, modulus)
    if divisor == 0:
        return bytes(modulus)
    return pow(_number(data, 96, base), _number(data, 96 + base, exponent), divisor).to_bytes(modulus, "big")


def _sizes(data: bytes) -> tuple[int, int, int]:
    return _number(data, 0, 32), _number(data, 32, 32), _number(data, 64, 32)


def _number(data: bytes, at: int, size: int) -> int:
    """Return a big-endian number from the input, which is zero-padded at its end."""
    piece = data[at : at + size]
    return int.from_bytes(piece, "big") << 8 * (size - len(piece)) if piece else 0


def _iterations(data: bytes, base: int, exponent: int, per_byte: int) -> int:
    """EIP-2565's iteration count, at least 1."""
    head = _number(data, 96 + base, min(exponent, 32))
    long_part = per_byte * (exponent - 32) if exponent > 32 else 0
    return max(1, long_part + max(head.bit_length() - 1, 0))


_ONE = (1).to_bytes(32, "big")


def verify_p256(data: bytes) -> bytes:
    """Return the word 1 for a valid signature, else empty."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    if len(data) != 160:
        return b""
    r, s, x, y = (int.from_bytes(data[at : at + 32], "big") for at in range(32, 160, 32))
    try:
        key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        signature = utils.encode_dss_signature(r, s)
        key.verify(signature, data[:32], ec.ECDSA(utils.Prehashed(hashes.SHA256())))
    except (ValueError, InvalidSignature):
        return b""
    return _ONE
