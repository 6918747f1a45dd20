"""Runs small EVM programs on an empty state."""

from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.call_frame import BlockContext, CallFrame, CallMessage, TransactionEnvironment
from rollup_node.tools.devnet.evm.interpreter import execute
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase

CONTRACT, CALLER, OTHER = b"\xaa" * 20, b"\xbb" * 20, b"\xcc" * 20
GAS = 1_000_000
MAX_WORD = (1 << 256) - 1
RETURN_TOP = "5f5260205ff3"
"""Returns the top of the stack: PUSH0 MSTORE PUSH1 32 PUSH0 RETURN."""


def run_code(
    code: str | bytes,
    *,
    gas: int = GAS,
    value: int = 0,
    rules: EvmRules = forks.OSAKA,
    state: State | None = None,
) -> CallFrame:
    """Run code (hex or bytes) at CONTRACT, called by CALLER in block 7 of slot 84 at time 1000; the finished frame."""
    state = state or State(StateDatabase())
    program = bytes.fromhex(code) if isinstance(code, str) else code
    if not state.is_alive(CONTRACT):
        state.set_nonce(CONTRACT, 1)
        state.set_code(CONTRACT, program)
    state.begin_transaction()
    block = BlockContext(7, 1000, OTHER, 30_000_000, 5, b"\x03" * 32, 10, lambda number: bytes([number]) * 32, 3, 84)
    message = CallMessage(CALLER, CONTRACT, CONTRACT, program, value, b"", gas)
    return execute(TransactionEnvironment(state, rules, block, CALLER, 9, (b"\x01" * 32,)), message)


def result_of(code: str, **options: object) -> int:
    """Return the top of the stack after a program."""
    frame = run_code(code + RETURN_TOP, **options)  # type: ignore[arg-type]
    assert frame.succeeded, frame.error
    return int.from_bytes(frame.output, "big")
