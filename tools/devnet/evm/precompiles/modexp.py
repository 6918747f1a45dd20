"""The modular exponentiation precompile (EIP-198) with its gas rules (EIP-2565, EIP-7823, EIP-7883)."""

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt

_MAX_OPERAND = 1024


def gas_from_berlin(data: bytes) -> int:
    """The gas by EIP-2565."""
    base, exponent, modulus = _sizes(data)
    complexity = (max(base, modulus) + 7 >> 3) ** 2
    return max(200, complexity * _iterations(data, base, exponent, 8) // 3)


def gas_from_osaka(data: bytes) -> int:
    """The gas by EIP-7883. Raises ExceptionalHalt for operands above EIP-7823's limit."""
    base, exponent, modulus = _sizes(data)
    if max(base, exponent, modulus) > _MAX_OPERAND:
        raise ExceptionalHalt("modexp operand larger than 1024 bytes")
    widest = max(base, modulus)
    complexity = 16 if widest <= 32 else 2 * (widest + 7 >> 3) ** 2
    return max(500, complexity * _iterations(data, base, exponent, 16))


def modexp(data: bytes) -> bytes:
    """base ** exponent % modulus, in the length of the modulus."""
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
    """A big-endian number from the input, which is zero-padded at its end."""
    piece = data[at : at + size]
    return int.from_bytes(piece, "big") << 8 * (size - len(piece)) if piece else 0


def _iterations(data: bytes, base: int, exponent: int, per_byte: int) -> int:
    """EIP-2565's iteration count, at least 1."""
    head = _number(data, 96 + base, min(exponent, 32))
    long_part = per_byte * (exponent - 32) if exponent > 32 else 0
    return max(1, long_part + max(head.bit_length() - 1, 0))
