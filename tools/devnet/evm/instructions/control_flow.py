"""Jumps, the program counter, gas, and the ends of a call."""

from rollup_node.tools.devnet.evm.call_frame import CallFrame, ExceptionalHalt


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
