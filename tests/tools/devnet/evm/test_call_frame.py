"""Gas, memory and the end of a call frame."""

import pytest

from rollup_node.tools.devnet.evm.call_frame import (
    BlockContext,
    CallFrame,
    CallMessage,
    CodeAnalysis,
    ExceptionalHalt,
    Instruction,
    InstructionSet,
    OutOfGas,
    TransactionEnvironment,
)
from rollup_node.tools.devnet.evm.instructions import table
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition import forks
from tests.support.chains.evm_programs import run_code

A, B = b"\xaa" * 20, b"\xbb" * 20


def frame(gas: int = 10_000, *, is_static: bool = False, creates: bool = False, returns: int = 32) -> CallFrame:
    state = State(StateDatabase())
    block = BlockContext(1, 1, A, 30_000_000, 1, bytes(32), 1, lambda number: bytes(32))
    message = CallMessage(
        A, B, B, b"", 0, b"", gas, is_static=is_static, creates=creates, returns_at=1, returns_size=returns
    )
    environment = TransactionEnvironment(state, forks.OSAKA, block, A, 1)
    return CallFrame(environment, message, state.snapshot(), CodeAnalysis(b"", ()))


def test_charge() -> None:
    call = frame(10)
    call.charge(10)
    assert call.gas == 0
    with pytest.raises(OutOfGas):
        call.charge(1)


def test_memory_grows_in_words_and_is_charged_once() -> None:
    call = frame()
    assert call.read(31, 2) == bytes(2)
    assert (len(call.memory), call.gas) == (64, 10_000 - 6)
    call.expand(0, 64)
    call.expand(1 << 200, 0)
    assert call.gas == 10_000 - 6
    with pytest.raises(OutOfGas, match="memory"):
        call.expand(1 << 40, 1)


def test_cold_and_warm_access() -> None:
    call = frame()
    call.access_account(A)
    call.access_account(A)
    assert call.gas == 10_000 - 2600 - 100
    assert (call.slot_surcharge(1), call.slot_surcharge(1)) == (2100, 0)


def test_a_static_frame_is_not_writable() -> None:
    frame().require_writable()
    with pytest.raises(ExceptionalHalt, match="write protection"):
        frame(is_static=True).require_writable()


def test_the_three_ends() -> None:
    finished, reverted, failed = frame(), frame(), frame()
    finished.finish(b"a")
    reverted.revert(b"b")
    failed.fail("error")
    assert (finished.succeeded, finished.output, finished.gas, finished.error) == (True, b"a", 10_000, "")
    assert (reverted.succeeded, reverted.output, reverted.gas) == (False, b"b", 10_000)
    assert reverted.error == "execution reverted"
    assert (failed.succeeded, failed.output, failed.gas, failed.error) == (False, b"", 0, "error")
    assert {item.next for item in (finished, reverted, failed)} == {-1}


def test_a_caller_takes_over_output_and_gas() -> None:
    caller, child = frame(100), frame(40, returns=2)
    caller.memory.extend(bytes(32))
    child.finish(b"xyz")
    caller.resume(child)
    assert (caller.gas, caller.returned, caller.stack) == (140, b"xyz", [1])
    assert bytes(caller.memory[:4]) == b"\0xy\0"
    reverted = frame(7)
    reverted.revert(b"r")
    caller.resume(reverted)
    assert (caller.gas, caller.returned, caller.stack) == (147, b"r", [1, 0])


def test_a_caller_takes_over_the_address_of_a_creation() -> None:
    caller, created, failed = frame(), frame(creates=True), frame(creates=True)
    created.finish(b"code")
    caller.resume(created)
    assert (caller.stack, caller.returned) == ([int.from_bytes(B, "big")], b"")
    failed.revert(b"reason")
    caller.resume(failed)
    assert (caller.stack[-1], caller.returned) == (0, b"reason")


def analysis(code: str) -> CodeAnalysis:
    return table.OSAKA.analyse(bytes.fromhex(code))


def test_a_block_sums_gas_and_stack() -> None:
    block = analysis("6001600201" + "00").block_at(0)
    assert (block.gas, block.stack_needed, block.stack_growth) == (9, 0, 2)
    assert [argument for _, argument in block.steps[:2]] == [1, 2]
    needing = analysis("01" + "50" + "6001").block_at(0)
    assert (needing.stack_needed, needing.stack_growth) == (2, 0)


def test_blocks_end_at_jump_destinations_and_gas_observers() -> None:
    code = "6001" + "5b6002" + "5a" + "6003"
    result = analysis(code)
    assert result.block_at(0).following == 2
    assert result.block_at(2).following == 6
    assert result.block_at(2).gas == 1 + 3 + 2
    assert result.block_at(6).following == -1
    assert analysis("6001" + "55" + "00").block_at(0).following == 3


def test_decoded_blocks_are_kept() -> None:
    result = analysis("6001" + "00")
    assert result.blocks == {} or 0 in result.blocks
    block = result.block_at(0)
    assert result.blocks[0] is block


def test_push_data_is_no_instruction() -> None:
    assert analysis("60" + "5b" + "5b").jump_destinations == {2}
    assert analysis("7f" + "5b" * 32 + "5b").jump_destinations == {33}
    assert analysis("6001").jump_destinations == frozenset()


def test_a_push_at_the_end_is_zero_padded() -> None:
    assert analysis("61ff").block_at(0).steps == ((None, 0xFF00),)


def test_undefined_opcodes_halt_when_they_are_reached() -> None:
    assert run_code("0c").error == "invalid opcode 0x0c"
    assert run_code("00" + "0c").succeeded


def test_an_extended_set_replaces_rows() -> None:
    base = InstructionSet({0x00: Instruction(0, 0, 0, None, ends_block=True), 0x5F: Instruction(2, 0, 1, None)})
    extended = base.extended({0x5F: Instruction(7, 0, 1, None)})
    assert base.analyse(b"\x5f").block_at(0).gas == 2
    assert extended.analyse(b"\x5f").block_at(0).gas == 7
    assert extended.rows[0x00] == base.rows[0x00]
