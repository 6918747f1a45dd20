"""Contract code cut into straight runs of instructions, each checked for gas and stack once instead of per instruction.

A run ends where control may leave, at a jump target, and after every instruction that looks at the gas left, so that
taking a run's fixed gas in advance cannot be told from taking it bit by bit: a fault loses everything either way."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from rollup_node.tools.devnet.evm.call_frame import CallFrame, ExceptionalHalt

STACK_LIMIT = 1024
_JUMP_TARGET = 0x5B
_PUSH_ONE, _PUSH_LAST = 0x60, 0x7F
_PROGRAM_COUNTER = 0x58

Operation = Callable[[CallFrame, list[int], int], None]


class Instruction(NamedTuple):
    """A row of the instruction table: fixed gas, stack items needed and left in their place, whether a run ends after
    it, and a number for the operation. Without an operation the argument is pushed."""

    gas: int
    takes: int
    gives: int
    operation: Operation | None
    ends_run: bool = False
    argument: int = 0


class BasicBlock(NamedTuple):
    """A straight run: fixed gas, least stack height, how much higher the stack may get, where the next one starts."""

    gas: int
    takes: int
    grows: int
    steps: tuple[tuple[Operation | None, int], ...]
    following: int


class CodeAnalysis:
    """Decoded code. Runs are decoded when they are first reached."""

    def __init__(self, code: bytes, instructions: tuple[Instruction | None, ...]) -> None:
        self.runs: dict[int, BasicBlock] = {}
        self.targets = _jump_targets(code)
        self._code = code
        self._instructions = instructions

    def run_at(self, start: int) -> BasicBlock:
        """The run that starts at a code offset."""
        code, offset = self._code, start
        gas = height = takes = grows = 0
        steps: list[tuple[Operation | None, int]] = []
        while offset < len(code):
            opcode = code[offset]
            if opcode == _JUMP_TARGET:
                if offset > start:
                    break
                gas += 1
                offset += 1
                continue
            row = self._instructions[opcode]
            if row is None:
                steps.append((_undefined, opcode))
                break
            gas += row.gas
            takes = max(takes, row.takes - height)
            height += row.gives - row.takes
            grows = max(grows, height)
            argument = row.argument
            if _PUSH_ONE <= opcode <= _PUSH_LAST:
                size = opcode - _PUSH_ONE + 1
                argument = int.from_bytes(code[offset + 1 : offset + 1 + size].ljust(size, b"\0"), "big")
                offset += size
            elif opcode == _PROGRAM_COUNTER:
                argument = offset
            steps.append((row.operation, argument))
            offset += 1
            if row.ends_run:
                break
        following = offset if offset < len(code) else -1
        run = self.runs[start] = BasicBlock(gas, takes, grows, tuple(steps), following)
        return run


class InstructionSet:
    """The instructions of a fork, and the programs decoded with them, of the most recently used codes."""

    def __init__(self, rows: dict[int, Instruction]) -> None:
        self.rows = rows
        table = tuple(rows.get(opcode) for opcode in range(256))
        self.program: Callable[[bytes], CodeAnalysis] = lru_cache(256)(lambda code: CodeAnalysis(code, table))

    def changed(self, rows: dict[int, Instruction]) -> "InstructionSet":
        """Another set with some rows added or replaced."""
        return InstructionSet(self.rows | rows)


def _undefined(frame: CallFrame, stack: list[int], opcode: int) -> Any:
    raise ExceptionalHalt(f"invalid opcode 0x{opcode:02x}")


def _jump_targets(code: bytes) -> frozenset[int]:
    """Offsets of the jump targets that are instructions, not data of a push."""
    targets, offset, size = [], code.find(_JUMP_TARGET), len(code)
    if offset < 0:
        return frozenset()
    offset = 0
    while offset < size:
        opcode = code[offset]
        if opcode == _JUMP_TARGET:
            targets.append(offset)
        elif _PUSH_ONE <= opcode <= _PUSH_LAST:
            offset += opcode - _PUSH_ONE + 1
        offset += 1
    return frozenset(targets)
