"""Calls, contract creations and SELFDESTRUCT."""

import pytest

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.evm.call_frame import SYSTEM_ADDRESS, TRANSFER
from rollup_node.tools.devnet.evm.instructions.system import created_address, delegation_target
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition import forks
from tests.support.chains.evm_programs import CALLER, CONTRACT, OTHER, RETURN_TOP, result_of, returned_word, run_code

ONE_BYTE = "60015f53" + "60015ff3"
"""Init code that deploys the byte 0x01."""


def creating(init: str, opcode: str = "f0") -> str:
    """Return a program that creates a contract from init code of at most 31 bytes; CREATE2 with salt 0."""
    size = len(init) // 2
    salt = "5f" if opcode == "f5" else ""
    return f"{0x5F + size:02x}{init}5f52" + salt + f"60{size:02x}60{32 - size:02x}5f{opcode}"


def test_create_and_create2() -> None:
    state = State(StateDatabase())
    created = run_code(creating(ONE_BYTE) + RETURN_TOP, state=state).output[12:]
    assert created == created_address(CONTRACT, 1) == keccak256(bytes.fromhex("d694" + CONTRACT.hex() + "01"))[12:]
    assert state.code(created) == b"\x01" and state.nonce(created) == 1 and state.nonce(CONTRACT) == 2
    init = bytes.fromhex(ONE_BYTE)
    expected = keccak256(b"\xff" + CONTRACT + bytes(32) + keccak256(init))[12:]
    assert run_code(creating(ONE_BYTE, "f5") + RETURN_TOP).output[12:] == expected


def test_code_with_the_reserved_first_byte_is_not_deployed() -> None:
    state = State(StateDatabase())
    assert result_of(creating(ONE_BYTE.replace("6001", "60ef", 1)), state=state) == 0
    assert state.nonce(CONTRACT) == 2


def test_a_call_transfers_value_and_a_static_call_does_not() -> None:
    state = State(StateDatabase())
    state.add_balance(CONTRACT, 9)
    state.set_code(CONTRACT, b"\x00")
    call = "5f5f5f5f" + "6004" + "73" + OTHER.hex() + "61ffff" + "f1"
    assert result_of(call, state=state) == 1
    assert (state.balance(CONTRACT), state.balance(OTHER)) == (5, 4)
    assert run_code(call, state=state, is_static=True).error == "write protection"
    too_much = call.replace("6004", "6014")
    assert result_of(too_much, state=state) == 0


def transfers(code: str, state: State, value: int = 0) -> list[tuple[bytes, bytes, int]]:
    """Return the logged transfers of a program on Amsterdam: sender, recipient and wei."""
    state.add_balance(CALLER, value)
    run_code(code, state=state, rules=forks.AMSTERDAM, value=value)
    assert all((log.address, log.topics[0]) == (SYSTEM_ADDRESS, TRANSFER) for log in state.logs)
    return [(log.topics[1][12:], log.topics[2][12:], int.from_bytes(log.data, "big")) for log in state.logs]


def test_transfers_are_logged_from_amsterdam_on() -> None:
    """EIP-7708: of calls, creations and SELFDESTRUCT, between two accounts, and not if they revert."""
    call = "5f5f5f5f" + "6004" + "73" + OTHER.hex() + "61ffff" + "f1"
    for code, value, expected in (
        (call + call.replace("6004", "5f"), 9, [(CALLER, CONTRACT, 9), (CONTRACT, OTHER, 4)]),
        (call.replace(OTHER.hex(), CONTRACT.hex()), 0, []),
        (call + "5f5ffd", 9, []),
        ("5f5f6003f0", 5, [(CALLER, CONTRACT, 5), (CONTRACT, created_address(CONTRACT, 1), 3)]),
        ("73" + OTHER.hex() + "ff", 6, [(CALLER, CONTRACT, 6), (CONTRACT, OTHER, 6)]),
        ("73" + CONTRACT.hex() + "ff", 6, [(CALLER, CONTRACT, 6)]),
    ):
        assert transfers(code, State(StateDatabase()), value) == expected, code
    state = State(StateDatabase())
    assert run_code(call, state=state, rules=forks.OSAKA).succeeded and state.logs == []


def test_delegatecall_keeps_sender_value_and_storage() -> None:
    state = State(StateDatabase())
    state.set_code(OTHER, bytes.fromhex("335f55" + "34600155" + "30600255"))
    code = "5f5f5f5f" + "73" + OTHER.hex() + "5a" + "f4"
    state.set_code(CONTRACT, bytes.fromhex(code))
    state.add_balance(CALLER, 3)
    assert run_code(code, state=state, value=3).succeeded
    expected = [int.from_bytes(CALLER, "big"), 3, int.from_bytes(CONTRACT, "big")]
    assert [state.storage(CONTRACT, slot) for slot in range(3)] == expected


def test_calls_nest_to_1024() -> None:
    # Each level calls itself with all gas that it can pass on, and counts successes in transient storage.
    code = "5f5f5f5f5f30" + "5a" + "f1" + "50" + "5f5c6001015f5d" + "00"
    state = State(StateDatabase())
    assert run_code(code, gas=10**12, state=state).succeeded
    assert state.transient(CONTRACT, 0) == 1025


@pytest.mark.parametrize(("rules", "removed"), [(forks.SHANGHAI, True), (forks.CANCUN, False)])
def test_selfdestruct_before_and_since_cancun(rules: EvmRules, removed: bool) -> None:
    state = State(StateDatabase())
    state.add_balance(CONTRACT, 9)
    code = bytes.fromhex("73" + OTHER.hex() + "ff")
    state.set_code(CONTRACT, code)
    frame = run_code(code, state=state, rules=rules)
    state.end_transaction()
    assert frame.succeeded and state.balance(OTHER) == 9
    assert state.is_alive(CONTRACT) != removed


@pytest.mark.parametrize("code", ["5f5f5ff0", "5fff"])
def test_a_static_call_creates_and_destroys_nothing(code: str) -> None:
    assert run_code(code, is_static=True).error == "write protection"


def test_a_delegation_is_followed_from_prague_on() -> None:
    state = State(StateDatabase())
    state.set_code(OTHER, bytes.fromhex("602a5f5260205ff3"))
    state.set_code(CALLER, b"\xef\x01\x00" + OTHER)
    assert delegation_target(state.code(CALLER)) == OTHER
    assert delegation_target(state.code(OTHER)) is None
    code = "60205f5f5f73" + CALLER.hex() + "5afa505f515f5260205ff3"
    state.set_code(CONTRACT, bytes.fromhex(code))
    assert returned_word(run_code(code, state=state, rules=forks.PRAGUE)) == 42
    assert returned_word(run_code(code, state=state, rules=forks.CANCUN)) == 0
