"""Instructions of the stack, memory, storage and logs, and of jumps and ends."""

from rollup_node.tools.devnet.evm.call_frame import WARM_ACCESS, CallFrame, ExceptionalHalt, OutOfGas
from rollup_node.tools.devnet.evm.state import EventLog


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
