"""Stack and memory instructions."""

from rollup_node.tools.devnet.evm.call_frame import CallFrame


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
