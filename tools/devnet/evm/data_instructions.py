"""Instructions of arithmetic, stack, memory, storage and logs, and of jumps and ends."""

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.evm.call_frame import WARM_ACCESS, CallFrame, ExceptionalHalt, OutOfGas
from rollup_node.tools.devnet.evm.state import EventLog

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


def pop(frame: CallFrame, stack: list[int], _: int) -> None:
    """POP."""
    stack.pop()


def dup(frame: CallFrame, stack: list[int], depth: int) -> None:
    """DUP1 to DUP16; `depth` is a negative index."""
    stack.append(stack[depth])


def swap(frame: CallFrame, stack: list[int], depth: int) -> None:
    """SWAP1 to SWAP16; `depth` is a negative index."""
    stack[-1], stack[depth] = stack[depth], stack[-1]


def mload(frame: CallFrame, stack: list[int], _: int) -> None:
    """MLOAD."""
    offset = stack[-1]
    if offset + 32 > len(frame.memory):
        frame.expand(offset, 32)
    stack[-1] = int.from_bytes(frame.memory[offset : offset + 32], "big")


def mstore(frame: CallFrame, stack: list[int], _: int) -> None:
    """MSTORE."""
    offset = stack.pop()
    if offset + 32 > len(frame.memory):
        frame.expand(offset, 32)
    frame.memory[offset : offset + 32] = stack.pop().to_bytes(32, "big")


def mstore8(frame: CallFrame, stack: list[int], _: int) -> None:
    """MSTORE8."""
    offset = stack.pop()
    frame.expand(offset, 1)
    frame.memory[offset] = stack.pop() & 0xFF


def msize(frame: CallFrame, stack: list[int], _: int) -> None:
    """MSIZE."""
    stack.append(len(frame.memory))


def mcopy(frame: CallFrame, stack: list[int], _: int) -> None:
    """MCOPY (EIP-5656)."""
    target, source, size = stack.pop(), stack.pop(), stack.pop()
    frame.charge(3 * ((size + 31) >> 5))
    frame.expand(max(target, source), size)
    if size:
        frame.memory[target : target + size] = frame.memory[source : source + size]


_STIPEND = 2300


def sload(frame: CallFrame, stack: list[int], _: int) -> None:
    """SLOAD (EIP-2929)."""
    slot = stack[-1]
    frame.charge(frame.slot_surcharge(slot) or WARM_ACCESS)
    stack[-1] = frame.state.storage(frame.message.address, slot)


def sstore(frame: CallFrame, stack: list[int], _: int) -> None:
    """SSTORE, priced by original, current and new value (EIP-2200, EIP-2929, EIP-3529). Raises OutOfGas."""
    frame.require_writable()
    if frame.gas <= _STIPEND:  # EIP-2200: a plain transfer cannot write
        raise OutOfGas("out of gas: not more than the call stipend is left for SSTORE")
    slot, new = stack.pop(), stack.pop()
    state, address = frame.state, frame.message.address
    cost = frame.slot_surcharge(slot)
    current, original = state.storage(address, slot), state.original_storage(address, slot)
    if original == current != new:  # the first change of the slot in this transaction
        frame.charge(cost + (2900 if original else 20_000))
    else:
        frame.charge(cost + WARM_ACCESS)
    if current == new:
        return
    if original and current and not new:
        state.refund += 4800
    elif original and not current:
        state.refund -= 4800
    if original == new:
        state.refund += 2800 if original else 19_900
    state.set_storage(address, slot, new)


def tload(frame: CallFrame, stack: list[int], _: int) -> None:
    """TLOAD (EIP-1153)."""
    stack[-1] = frame.state.transient(frame.message.address, stack[-1])


def tstore(frame: CallFrame, stack: list[int], _: int) -> None:
    """TSTORE (EIP-1153)."""
    frame.require_writable()
    slot = stack.pop()
    frame.state.set_transient(frame.message.address, slot, stack.pop())


def log(frame: CallFrame, stack: list[int], topics: int) -> None:
    """LOG0 to LOG4."""
    frame.require_writable()
    offset, size = stack.pop(), stack.pop()
    words = tuple(stack.pop().to_bytes(32, "big") for _ in range(topics))
    frame.charge(8 * size)
    frame.state.logs.append(EventLog(frame.message.address, words, frame.read(offset, size)))


def jump(frame: CallFrame, stack: list[int], _: int) -> None:
    """JUMP. Raises ExceptionalHalt where the target is no JUMPDEST."""
    target = stack.pop()
    if target not in frame.analysis.jump_destinations:
        raise ExceptionalHalt("invalid jump destination")
    frame.next = target


def jumpi(frame: CallFrame, stack: list[int], _: int) -> None:
    """JUMPI. Raises ExceptionalHalt where it jumps and the target is no JUMPDEST."""
    target = stack.pop()
    if stack.pop():
        if target not in frame.analysis.jump_destinations:
            raise ExceptionalHalt("invalid jump destination")
        frame.next = target


def pc(frame: CallFrame, stack: list[int], offset: int) -> None:
    """PC."""
    stack.append(offset)


def gas_left(frame: CallFrame, stack: list[int], _: int) -> None:
    """GAS."""
    stack.append(frame.gas)


def stop(frame: CallFrame, stack: list[int], _: int) -> None:
    """STOP."""
    frame.finish()


def return_(frame: CallFrame, stack: list[int], _: int) -> None:
    """RETURN."""
    offset = stack.pop()
    frame.finish(frame.read(offset, stack.pop()))


def revert(frame: CallFrame, stack: list[int], _: int) -> None:
    """REVERT (EIP-140)."""
    offset = stack.pop()
    frame.revert(frame.read(offset, stack.pop()))
