"""A call frame: the message that it executes, its analysed code, its stack, memory and gas."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.state import EventLog, State, StateSnapshot

if TYPE_CHECKING:
    from rollup_node.tools.devnet.evm.rules import EvmRules
from functools import lru_cache
from typing import Any

SYSTEM_ADDRESS: Address = b"\xff" * 19 + b"\xfe"
"""Calls the system contracts (EIP-4788), and emits the logs of transfers (EIP-7708)."""
TRANSFER: Hash = bytes.fromhex("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
"""The topic of a transfer's log, which is that of ERC-20."""
MAX_DEPTH = 1024
WARM_ACCESS = 100
_COLD_ACCOUNT = 2600
_COLD_SLOT = 2100
_MAX_MEMORY = 1 << 32


class ExceptionalHalt(Exception):
    """The frame halts: its remaining gas is consumed and its changes are reverted."""


class OutOfGas(ExceptionalHalt):
    """The frame has not enough gas."""


class BlockContext(NamedTuple):
    """The block that code runs in. Fees in wei; `block_hash` gives the hashes of the last 256 numbers."""

    number: int
    timestamp: int
    coinbase: Address
    gas_limit: int
    base_fee: int
    prev_randao: Hash
    chain_id: int
    block_hash: Callable[[int], Hash]
    blob_base_fee: int = 1
    slot_number: int = 0


class TransactionEnvironment(NamedTuple):
    """What all frames of a transaction share; `gas_price` in wei."""

    state: State
    rules: "EvmRules"
    block: BlockContext
    origin: Address
    gas_price: int
    blob_hashes: tuple[Hash, ...] = ()

    def log_transfer(self, sender: Address, recipient: Address, value: int) -> None:
        """Log a transfer of wei between two accounts, where the rules say so (EIP-7708)."""
        if self.rules.transfer_logs and value and sender != recipient:
            topics = (TRANSFER, sender.rjust(32, b"\0"), recipient.rjust(32, b"\0"))
            self.state.logs.append(EventLog(SYSTEM_ADDRESS, topics, value.to_bytes(32, "big")))


class CallMessage(NamedTuple):
    """A call or a contract creation.

    `address` is the executing account, `code_address` that of the code; up to `returns_size` bytes of output go to
    `returns_at` in the caller's memory."""

    caller: Address
    address: Address
    code_address: Address
    code: bytes
    value: int
    data: bytes
    gas: int
    depth: int = 0
    is_static: bool = False
    transfers: bool = True
    creates: bool = False
    returns_at: int = 0
    returns_size: int = 0


class CallFrame:
    """A message in execution.

    `next` is the code offset of the next basic block, -1 at the end; `pending` is the call that the frame waits for."""

    __slots__ = (
        "analysis",
        "environment",
        "error",
        "gas",
        "memory",
        "message",
        "next",
        "output",
        "pending",
        "returned",
        "snapshot",
        "stack",
        "state",
        "succeeded",
    )

    def __init__(
        self,
        environment: TransactionEnvironment,
        message: CallMessage,
        snapshot: StateSnapshot,
        analysis: "CodeAnalysis",
    ) -> None:
        self.environment = environment
        self.state = environment.state
        self.message = message
        self.snapshot = snapshot
        self.analysis = analysis
        self.gas = message.gas
        self.stack: list[int] = []
        self.memory = bytearray()
        self.returned = b""
        self.output = b""
        self.next = 0
        self.pending: CallMessage | None = None
        self.succeeded = True
        self.error = ""

    def charge(self, gas: int) -> None:
        """Charge gas. Raises OutOfGas."""
        self.gas -= gas
        if self.gas < 0:
            raise OutOfGas("out of gas")

    def expand(self, offset: int, size: int) -> None:
        """Expand the memory in words of 32 bytes to `size` bytes at `offset`, and charge for it. Raises OutOfGas."""
        end = offset + size
        if size == 0 or end <= len(self.memory):  # an empty range costs nothing at any offset
            return
        if end > _MAX_MEMORY:  # costs more gas than any block has; do not compute its square
            raise OutOfGas("out of gas: memory")
        words, before = (end + 31) >> 5, len(self.memory) >> 5
        self.charge(3 * (words - before) + (words * words >> 9) - (before * before >> 9))
        self.memory.extend(bytes((words - before) << 5))

    def read(self, offset: int, size: int) -> bytes:
        """Read memory, which is expanded where necessary. Raises OutOfGas."""
        if size == 0:
            return b""
        self.expand(offset, size)
        return bytes(self.memory[offset : offset + size])

    def access_account(self, address: Address) -> None:
        """Charge the access to a cold or warm account (EIP-2929). Raises OutOfGas."""
        self.charge(_COLD_ACCOUNT if self.state.warm_up(address) else WARM_ACCESS)

    def slot_surcharge(self, slot: int) -> int:
        """Return the gas of the first access to a cold slot, zero for a warm one (EIP-2929)."""
        return _COLD_SLOT if self.state.warm_up((self.message.address, slot)) else 0

    def require_writable(self) -> None:
        """Raise ExceptionalHalt inside a static call."""
        if self.message.is_static:
            raise ExceptionalHalt("write protection")

    def finish(self, output: bytes = b"") -> None:
        """End successfully."""
        self.output = output
        self.next = -1

    def revert(self, output: bytes) -> None:
        """End with its changes reverted; remaining gas goes back to the caller."""
        self.output = output
        self.next = -1
        self.succeeded = False
        self.error = "execution reverted"

    def fail(self, error: str) -> None:
        """End with its changes reverted and its gas consumed."""
        self.output = b""
        self.gas = 0
        self.next = -1
        self.succeeded = False
        self.error = error

    def resume(self, child: "CallFrame") -> None:
        """Continue after a call: takes over its remaining gas, output and success."""
        message = child.message
        self.gas += child.gas
        if message.creates:
            self.returned = b"" if child.succeeded else child.output
            self.stack.append(int.from_bytes(message.address, "big") if child.succeeded else 0)
            return
        self.returned = child.output
        size = min(message.returns_size, len(child.output))
        if size:
            self.memory[message.returns_at : message.returns_at + size] = child.output[:size]
        self.stack.append(1 if child.succeeded else 0)


STACK_LIMIT = 1024
_JUMPDEST = 0x5B
_PUSH1, _PUSH32 = 0x60, 0x7F
_PC = 0x58

Operation = Callable[[CallFrame, list[int], int], None]


class Instruction(NamedTuple):
    """A row of the instruction table.

    Static gas, stack items popped and pushed, whether it ends a basic block, and an argument for the operation. Without
    an operation the argument is pushed."""

    gas: int
    pops: int
    pushes: int
    operation: Operation | None
    ends_block: bool = False
    argument: int = 0


class BasicBlock(NamedTuple):
    """A basic block: its static gas, the stack height that it needs, its growth of the stack, and its steps.

    And the code offset after it (-1 at the end of the code)."""

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
        """Decode the basic block at a code offset."""
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
        """Return the set with these rows added or replaced."""
        return InstructionSet(self.rows | rows)


def _undefined(frame: CallFrame, stack: list[int], opcode: int) -> Any:
    raise ExceptionalHalt(f"invalid opcode 0x{opcode:02x}")


def _jump_destinations(code: bytes) -> frozenset[int]:
    """Return the offsets of JUMPDEST instructions, without bytes of that value in the data of a push."""
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
