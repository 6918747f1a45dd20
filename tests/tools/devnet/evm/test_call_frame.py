"""Gas, memory and the end of a call frame."""

import pytest

from rollup_node.tools.devnet.evm.call_frame import (
    BlockContext,
    CallFrame,
    CallMessage,
    ExceptionalHalt,
    OutOfGas,
    TransactionEnvironment,
)
from rollup_node.tools.devnet.evm.code_analysis import CodeAnalysis
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition import forks

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
    assert {each.next for each in (finished, reverted, failed)} == {-1}


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
