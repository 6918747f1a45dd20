"""Jumps, the program counter, gas, and the ends of a call."""

from rollup_node.tools.devnet.evm.call_frame import CallFrame, ExceptionalHalt


def jump(frame: CallFrame, stack: list[int], _: int) -> None:
    target = stack.pop()
    if target not in frame.analysis.jump_destinations:
        raise ExceptionalHalt("invalid jump destination")
    frame.next = target


def jumpi(frame: CallFrame, stack: list[int], _: int) -> None:
    target = stack.pop()
    if stack.pop():
        if target not in frame.analysis.jump_destinations:
            raise ExceptionalHalt("invalid jump destination")
        frame.next = target


def pc(frame: CallFrame, stack: list[int], offset: int) -> None:
    stack.append(offset)


def gas_left(frame: CallFrame, stack: list[int], _: int) -> None:
    stack.append(frame.gas)


def stop(frame: CallFrame, stack: list[int], _: int) -> None:
    frame.finish()


def return_(frame: CallFrame, stack: list[int], _: int) -> None:
    offset = stack.pop()
    frame.finish(frame.read(offset, stack.pop()))


def revert(frame: CallFrame, stack: list[int], _: int) -> None:
    offset = stack.pop()
    frame.revert(frame.read(offset, stack.pop()))
