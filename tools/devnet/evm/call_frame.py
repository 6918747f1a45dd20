"""One call in execution: what it was called with, and the stack, memory and gas it has left."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.state import State, StateSnapshot

if TYPE_CHECKING:
    from rollup_node.tools.devnet.evm.code_analysis import CodeAnalysis
    from rollup_node.tools.devnet.evm.rules import EvmRules

MAX_DEPTH = 1024
WARM_ACCESS = 100
_COLD_ACCOUNT = 2600
_COLD_SLOT = 2100
_MAX_MEMORY = 1 << 32


class ExceptionalHalt(Exception):
    """The call ends by a fault: its gas is gone and its changes are undone."""


class OutOfGas(ExceptionalHalt):
    """The call's gas did not suffice."""


class BlockContext(NamedTuple):
    """What code can ask about its block. Fees in wei; `block_hash` answers for the last 256 numbers."""

    number: int
    timestamp: int
    coinbase: Address
    gas_limit: int
    base_fee: int
    prev_randao: Hash
    chain_id: int
    block_hash: Callable[[int], Hash]
    blob_base_fee: int = 1


class TransactionEnvironment(NamedTuple):
    """What all calls of one transaction share."""

    state: State
    rules: "EvmRules"
    block: BlockContext
    origin: Address
    gas_price: int
    blob_hashes: tuple[Hash, ...] = ()


class CallMessage(NamedTuple):
    """A call or a creation. `address` is the account it acts as, `code_address` where the code was found;
    `returns_at` is where in the caller's memory up to `returns_size` bytes of the answer go."""

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
    """A message in execution. `next` is the code offset to go on at, -1 at the end; `pending` the call it waits for."""

    __slots__ = (
        "environment",
        "gas",
        "memory",
        "message",
        "next",
        "output",
        "pending",
        "problem",
        "program",
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
        program: "CodeAnalysis",
    ) -> None:
        self.environment = environment
        self.state = environment.state
        self.message = message
        self.snapshot = snapshot
        self.program = program
        self.gas = message.gas
        self.stack: list[int] = []
        self.memory = bytearray()
        self.returned = b""
        self.output = b""
        self.next = 0
        self.pending: CallMessage | None = None
        self.succeeded = True
        self.problem = ""

    def charge(self, gas: int) -> None:
        """Takes gas; OutOfGas where it does not suffice."""
        self.gas -= gas
        if self.gas < 0:
            raise OutOfGas("out of gas")

    def expand(self, offset: int, size: int) -> None:
        """Grows the memory, in words of 32 bytes, to hold `size` bytes at `offset`, and takes the gas for it."""
        end = offset + size
        if size == 0 or end <= len(self.memory):
            return
        if end > _MAX_MEMORY:
            raise OutOfGas("out of gas: memory")
        words, before = (end + 31) >> 5, len(self.memory) >> 5
        self.charge(3 * (words - before) + (words * words >> 9) - (before * before >> 9))
        self.memory.extend(bytes((words - before) << 5))

    def read(self, offset: int, size: int) -> bytes:
        """A piece of memory, which grows to hold it."""
        if size == 0:
            return b""
        self.expand(offset, size)
        return bytes(self.memory[offset : offset + size])

    def access_account(self, address: Address) -> None:
        """Takes the gas of touching an account (EIP-2929)."""
        self.charge(_COLD_ACCOUNT if self.state.warm_up(address) else WARM_ACCESS)

    def slot_surcharge(self, slot: int) -> int:
        """What a first access to a slot costs more than the warm one costs; zero for later ones."""
        return _COLD_SLOT if self.state.warm_up((self.message.address, slot)) else 0

    def require_writable(self) -> None:
        """Faults inside a static call."""
        if self.message.is_static:
            raise ExceptionalHalt("write protection")

    def finish(self, output: bytes = b"") -> None:
        """Ends with success."""
        self.output = output
        self.next = -1

    def revert(self, output: bytes) -> None:
        """Ends with its changes undone, its gas kept."""
        self.output = output
        self.next = -1
        self.succeeded = False
        self.problem = "execution reverted"

    def fail(self, problem: str) -> None:
        """Ends with its changes undone and its gas lost."""
        self.output = b""
        self.gas = 0
        self.next = -1
        self.succeeded = False
        self.problem = problem

    def resume(self, child: "CallFrame") -> None:
        """Takes over what a finished call or creation brought."""
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
