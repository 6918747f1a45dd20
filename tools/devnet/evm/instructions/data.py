"""Stack, memory, storage, jumps and logs."""

from rollup_node.tools.devnet.evm.call_frame import WARM_ACCESS, CallFrame, ExceptionalHalt, OutOfGas
from rollup_node.tools.devnet.evm.state import EventLog

_STIPEND = 2300


def pop(frame: CallFrame, stack: list[int], _: int) -> None:
    stack.pop()


def duplicate(frame: CallFrame, stack: list[int], depth: int) -> None:
    stack.append(stack[depth])


def swap(frame: CallFrame, stack: list[int], depth: int) -> None:
    stack[-1], stack[depth] = stack[depth], stack[-1]


def load(frame: CallFrame, stack: list[int], _: int) -> None:
    offset = stack[-1]
    if offset + 32 > len(frame.memory):
        frame.expand(offset, 32)
    stack[-1] = int.from_bytes(frame.memory[offset : offset + 32], "big")


def store(frame: CallFrame, stack: list[int], _: int) -> None:
    offset = stack.pop()
    if offset + 32 > len(frame.memory):
        frame.expand(offset, 32)
    frame.memory[offset : offset + 32] = stack.pop().to_bytes(32, "big")


def store_byte(frame: CallFrame, stack: list[int], _: int) -> None:
    offset = stack.pop()
    frame.expand(offset, 1)
    frame.memory[offset] = stack.pop() & 0xFF


def memory_size(frame: CallFrame, stack: list[int], _: int) -> None:
    stack.append(len(frame.memory))


def copy_memory(frame: CallFrame, stack: list[int], _: int) -> None:
    target, source, size = stack.pop(), stack.pop(), stack.pop()
    frame.charge(3 * ((size + 31) >> 5))
    frame.expand(max(target, source), size)
    if size:
        frame.memory[target : target + size] = frame.memory[source : source + size]


def load_slot(frame: CallFrame, stack: list[int], _: int) -> None:
    slot = stack[-1]
    frame.charge(frame.slot_surcharge(slot) or WARM_ACCESS)
    stack[-1] = frame.state.storage(frame.message.address, slot)


def store_slot(frame: CallFrame, stack: list[int], _: int) -> None:
    """Prices by original, present and new value (EIP-2200, 2929, 3529)."""
    frame.require_writable()
    if frame.gas <= _STIPEND:
        raise OutOfGas("out of gas: only the stipend is left for a storage write")
    slot, new = stack.pop(), stack.pop()
    state, address = frame.state, frame.message.address
    cost = frame.slot_surcharge(slot)
    present, original = state.storage(address, slot), state.original_storage(address, slot)
    if original == present != new:
        frame.charge(cost + (2900 if original else 20_000))
    else:
        frame.charge(cost + WARM_ACCESS)
    if present == new:
        return
    if original and present and not new:
        state.refund += 4800
    elif original and not present:
        state.refund -= 4800
    if original == new:
        state.refund += 2800 if original else 19_900
    state.set_storage(address, slot, new)


def load_transient(frame: CallFrame, stack: list[int], _: int) -> None:
    stack[-1] = frame.state.transient(frame.message.address, stack[-1])


def store_transient(frame: CallFrame, stack: list[int], _: int) -> None:
    frame.require_writable()
    slot = stack.pop()
    frame.state.set_transient(frame.message.address, slot, stack.pop())


def jump(frame: CallFrame, stack: list[int], _: int) -> None:
    target = stack.pop()
    if target not in frame.program.targets:
        raise ExceptionalHalt("invalid jump destination")
    frame.next = target


def jump_if(frame: CallFrame, stack: list[int], _: int) -> None:
    target = stack.pop()
    if stack.pop():
        if target not in frame.program.targets:
            raise ExceptionalHalt("invalid jump destination")
        frame.next = target


def program_counter(frame: CallFrame, stack: list[int], offset: int) -> None:
    stack.append(offset)


def gas_left(frame: CallFrame, stack: list[int], _: int) -> None:
    stack.append(frame.gas)


def log(frame: CallFrame, stack: list[int], topics: int) -> None:
    frame.require_writable()
    offset, size = stack.pop(), stack.pop()
    words = tuple(stack.pop().to_bytes(32, "big") for _ in range(topics))
    frame.charge(8 * size)
    frame.state.logs.append(EventLog(frame.message.address, words, frame.read(offset, size)))


def stop(frame: CallFrame, stack: list[int], _: int) -> None:
    frame.finish()


def give_back(frame: CallFrame, stack: list[int], _: int) -> None:
    offset = stack.pop()
    frame.finish(frame.read(offset, stack.pop()))


def revert(frame: CallFrame, stack: list[int], _: int) -> None:
    offset = stack.pop()
    frame.revert(frame.read(offset, stack.pop()))
