"""Arithmetic, comparison, bitwise and Keccak instructions, on words as unsigned integers."""

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.evm.call_frame import CallFrame

MASK = (1 << 256) - 1
_SIGN = 1 << 255
_MODULUS = 1 << 256


def _signed(word: int) -> int:
    return word - _MODULUS if word & _SIGN else word


def add(frame: CallFrame, stack: list[int], _: int) -> None:
    """ADD."""
    left = stack.pop()
    stack[-1] = (left + stack[-1]) & MASK


def mul(frame: CallFrame, stack: list[int], _: int) -> None:
    """MUL."""
    left = stack.pop()
    stack[-1] = left * stack[-1] & MASK


def sub(frame: CallFrame, stack: list[int], _: int) -> None:
    """SUB."""
    left = stack.pop()
    stack[-1] = (left - stack[-1]) & MASK


def div(frame: CallFrame, stack: list[int], _: int) -> None:
    """DIV; division by zero is 0."""
    left = stack.pop()
    right = stack[-1]
    stack[-1] = left // right if right else 0


def sdiv(frame: CallFrame, stack: list[int], _: int) -> None:
    """SDIV, rounded towards zero; division by zero is 0."""
    left, right = _signed(stack.pop()), _signed(stack[-1])
    quotient = abs(left) // abs(right) if right else 0
    stack[-1] = (quotient if (left < 0) == (right < 0) else -quotient) & MASK


def mod(frame: CallFrame, stack: list[int], _: int) -> None:
    """MOD; modulo zero is 0."""
    left = stack.pop()
    right = stack[-1]
    stack[-1] = left % right if right else 0


def smod(frame: CallFrame, stack: list[int], _: int) -> None:
    """SMOD, with the sign of the dividend."""
    left, right = _signed(stack.pop()), _signed(stack[-1])
    rest = abs(left) % abs(right) if right else 0
    stack[-1] = (-rest if left < 0 else rest) & MASK


def addmod(frame: CallFrame, stack: list[int], _: int) -> None:
    """ADDMOD, without overflow of the sum."""
    left, right = stack.pop(), stack.pop()
    modulus = stack[-1]
    stack[-1] = (left + right) % modulus if modulus else 0


def mulmod(frame: CallFrame, stack: list[int], _: int) -> None:
    """MULMOD, without overflow of the product."""
    left, right = stack.pop(), stack.pop()
    modulus = stack[-1]
    stack[-1] = left * right % modulus if modulus else 0


def exp(frame: CallFrame, stack: list[int], _: int) -> None:
    """EXP; each byte of the exponent costs 50 gas (EIP-160)."""
    base = stack.pop()
    exponent = stack[-1]
    frame.charge(50 * ((exponent.bit_length() + 7) >> 3))
    stack[-1] = pow(base, exponent, _MODULUS)


def signextend(frame: CallFrame, stack: list[int], _: int) -> None:
    """SIGNEXTEND from the byte at an index."""
    size = stack.pop()
    if size < 31:
        sign = 1 << (8 * size + 7)
        word = stack[-1]
        stack[-1] = word | (MASK - sign + 1) if word & sign else word & (sign - 1)


def less_than(frame: CallFrame, stack: list[int], _: int) -> None:
    """LT."""
    left = stack.pop()
    stack[-1] = 1 if left < stack[-1] else 0


def greater_than(frame: CallFrame, stack: list[int], _: int) -> None:
    """GT."""
    left = stack.pop()
    stack[-1] = 1 if left > stack[-1] else 0


def signed_less_than(frame: CallFrame, stack: list[int], _: int) -> None:
    """SLT."""
    left = stack.pop() ^ _SIGN
    stack[-1] = 1 if left < stack[-1] ^ _SIGN else 0


def signed_greater_than(frame: CallFrame, stack: list[int], _: int) -> None:
    """SGT."""
    left = stack.pop() ^ _SIGN
    stack[-1] = 1 if left > stack[-1] ^ _SIGN else 0


def equal(frame: CallFrame, stack: list[int], _: int) -> None:
    """EQ."""
    left = stack.pop()
    stack[-1] = 1 if left == stack[-1] else 0


def is_zero(frame: CallFrame, stack: list[int], _: int) -> None:
    """ISZERO."""
    stack[-1] = 0 if stack[-1] else 1


def bitwise_and(frame: CallFrame, stack: list[int], _: int) -> None:
    """AND."""
    left = stack.pop()
    stack[-1] &= left


def bitwise_or(frame: CallFrame, stack: list[int], _: int) -> None:
    """OR."""
    left = stack.pop()
    stack[-1] |= left


def bitwise_xor(frame: CallFrame, stack: list[int], _: int) -> None:
    """XOR."""
    left = stack.pop()
    stack[-1] ^= left


def bitwise_not(frame: CallFrame, stack: list[int], _: int) -> None:
    """NOT."""
    stack[-1] ^= MASK


def get_byte(frame: CallFrame, stack: list[int], _: int) -> None:
    """BYTE, counted from the most significant one."""
    index = stack.pop()
    stack[-1] = stack[-1] >> (248 - 8 * index) & 0xFF if index < 32 else 0


def bitwise_shl(frame: CallFrame, stack: list[int], _: int) -> None:
    """SHL (EIP-145)."""
    bits = stack.pop()
    stack[-1] = stack[-1] << bits & MASK if bits < 256 else 0


def bitwise_shr(frame: CallFrame, stack: list[int], _: int) -> None:
    """SHR (EIP-145)."""
    bits = stack.pop()
    stack[-1] = stack[-1] >> bits if bits < 256 else 0


def bitwise_sar(frame: CallFrame, stack: list[int], _: int) -> None:
    """SAR (EIP-145)."""
    bits = stack.pop()
    stack[-1] = _signed(stack[-1]) >> min(bits, 255) & MASK


def count_leading_zeros(frame: CallFrame, stack: list[int], _: int) -> None:
    """CLZ (EIP-7939)."""
    stack[-1] = 256 - stack[-1].bit_length()


def keccak(frame: CallFrame, stack: list[int], _: int) -> None:
    """KECCAK256 of a piece of memory."""
    offset = stack.pop()
    size = stack[-1]
    frame.charge(6 * ((size + 31) >> 5))
    stack[-1] = int.from_bytes(keccak256(frame.read(offset, size)), "big")
