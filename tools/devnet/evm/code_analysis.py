"""Splits contract code into basic blocks, whose static gas and stack bounds are checked once, not per instruction.

A block ends at a jump destination, after an instruction that may leave it, and after one that observes the remaining
gas. So charging a block's static gas in advance is not observable: an exceptional halt consumes all gas either way."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from rollup_node.tools.devnet.evm.call_frame import CallFrame, ExceptionalHalt

STACK_LIMIT = 1024
_JUMPDEST = 0x5B
_PUSH1, _PUSH32 = 0x60, 0x7F
_PC = 0x58

Operation = Callable[[CallFrame, list[int], int], None]


class Instruction(NamedTuple):
    """A row of the instruction table: static gas, stack items popped and pushed, whether it ends a basic block, and an
    argument for the operation. Without an operation the argument is pushed."""

    gas: int
    pops: int
    pushes: int
    operation: Operation | None
    ends_block: bool = False
    argument: int = 0


class BasicBlock(NamedTuple):
    """A basic block: its static gas, the stack height that it needs, the growth of the stack within it, its steps, and
    the code offset after it (-1 at the end of the code)."""

    gas: int
    stack_needed: int
    stack_growth: int
    steps: tuple[tuple[Operation | None, int], ...]
    following: int


class CodeAnalysis:
    """Analysed code; basic blocks are decoded when they are first reached."""

    def __init__(self, code: bytes, instructions: tuple[Instruction | None, ...]) -> None:
        self.blocks: dict[int, BasicBlock] = {}
        self.jump_destinations = _jump_destinations(code)
        self._code = code
        self._instructions = instructions

    def block_at(self, start: int) -> BasicBlock:
        """Decodes the basic block at a code offset."""
        code, offset = self._code, start
        gas = height = needed = growth = 0
        steps: list[tuple[Operation | None, int]] = []
        while offset < len(code):
            opcode = code[offset]
            if opcode == _JUMPDEST:
                if offset > start:
                    break
                gas += 1
                offset += 1
                continue
            row = self._instructions[opcode]
            if row is None:  # halts when it is reached, not when it is decoded
                steps.append((_undefined, opcode))
                break
            gas += row.gas
            needed = max(needed, row.pops - height)
            height += row.pushes - row.pops
            growth = max(growth, height)
            argument = row.argument
            if _PUSH1 <= opcode <= _PUSH32:
                size = opcode - _PUSH1 + 1
                argument = int.from_bytes(code[offset + 1 : offset + 1 + size].ljust(size, b"\0"), "big")
                offset += size
            elif opcode == _PC:
                argument = offset
            steps.append((row.operation, argument))
            offset += 1
            if row.ends_block:
                break
        following = offset if offset < len(code) else -1
        block = self.blocks[start] = BasicBlock(gas, needed, growth, tuple(steps), following)
        return block


class InstructionSet:
    """The instructions of a fork, with a cache of the most recently used code analyses."""

    def __init__(self, rows: dict[int, Instruction]) -> None:
        self.rows = rows
        table = tuple(rows.get(opcode) for opcode in range(256))
        self.analyse: Callable[[bytes], CodeAnalysis] = lru_cache(256)(lambda code: CodeAnalysis(code, table))

    def extended(self, rows: dict[int, Instruction]) -> "InstructionSet":
        """The set with these rows added or replaced."""
        return InstructionSet(self.rows | rows)


def _undefined(frame: CallFrame, stack: list[int], opcode: int) -> Any:
    raise ExceptionalHalt(f"invalid opcode 0x{opcode:02x}")


def _jump_destinations(code: bytes) -> frozenset[int]:
    """The offsets of JUMPDEST instructions, without bytes of that value in the data of a push."""
    targets, offset, size = [], code.find(_JUMPDEST), len(code)
    if offset < 0:  # most called code that is short has none
        return frozenset()
    offset = 0
    while offset < size:
        opcode = code[offset]
        if opcode == _JUMPDEST:
            targets.append(offset)
        elif _PUSH1 <= opcode <= _PUSH32:
            offset += opcode - _PUSH1 + 1
        offset += 1
    return frozenset(targets)
