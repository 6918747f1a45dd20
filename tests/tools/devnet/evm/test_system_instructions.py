"""Instructions that read the call and the block, transfers by EIP-7708, depth, SELFDESTRUCT; test_eels_differential has
the rest."""

import pytest

from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.call_frame import SYSTEM_ADDRESS, TRANSFER
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.system_instructions import created_address
from tests.support.chains.evm_programs import CALLER, CONTRACT, GAS, OTHER, result_of, run_code


def number(address: bytes) -> int:
    return int.from_bytes(address, "big")


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("30", number(CONTRACT)),
        ("32", number(CALLER)),
        ("33", number(CALLER)),
        ("36", 3),
        ("5f35", number(b"\x01\x02\x03".ljust(32, b"\0"))),
        ("600135", number(b"\x02\x03".ljust(32, b"\0"))),
        ("600435", 0),
        ("3a", 9),
        ("3d", 0),
        ("41", number(OTHER)),
        ("42", 1000),
        ("43", 7),
        ("44", number(b"\x03" * 32)),
        ("45", 30_000_000),
        ("46", 10),
        ("48", 5),
        ("600640", number(b"\x06" * 32)),
        ("600740", 0),
        ("4a", 3),
        ("5f49", number(b"\x01" * 32)),
        ("600149", 0),
    ],
)
def test_results(code: str, result: int) -> None:
    assert result_of(code, data=b"\x01\x02\x03") == result


def test_the_slot_number() -> None:
    assert result_of("4b", rules=forks.AMSTERDAM) == 84 and GAS - run_code("4b00", rules=forks.AMSTERDAM).gas == 2


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
