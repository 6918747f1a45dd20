"""Storage, transient storage and log instructions."""

from rollup_node.tools.devnet.evm.call_frame import WARM_ACCESS, CallFrame, OutOfGas
from rollup_node.tools.devnet.evm.state import EventLog

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
