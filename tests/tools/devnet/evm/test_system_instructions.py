"""Instructions that read the call and the block, transfers by EIP-7708, depth, SELFDESTRUCT; test_eels_differential has
the rest."""

from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.call_frame import SYSTEM_ADDRESS, TRANSFER
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.system_instructions import created_address
from tests.support.chains.evm_programs import CALLER, CONTRACT, GAS, OTHER, result_of, run_code


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
