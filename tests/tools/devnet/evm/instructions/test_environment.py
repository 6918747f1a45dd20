"""Instructions that read the call, the transaction, the block and other accounts."""

import pytest

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.evm.instructions.environment import to_address
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition import forks
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


def test_other_accounts_and_their_access_cost() -> None:
    state = State(StateDatabase())
    state.set_code(OTHER, b"\x60\x00")
    state.add_balance(OTHER, 77)
    target = "73" + OTHER.hex()
    assert result_of(target + "31", state=state) == 77
    assert result_of(target + "3b", state=state) == 2
    assert result_of(target + "3f", state=state) == number(keccak256(b"\x60\x00"))
    assert result_of("6012" + "3f", state=state) == 0
    assert GAS - run_code(target + "31" + target + "3b", state=state).gas == 3 + 2600 + 3 + 100


def test_copies_are_zero_padded() -> None:
    copied = run_code("6020" + "6001" + "5f" + "37" + "60205ff3", data=b"\x01\x02\x03").output
    assert copied == b"\x02\x03".ljust(32, b"\0")
    code = "6020" + "5f" + "5f" + "39" + "60205ff3"
    assert run_code(code).output == bytes.fromhex(code).ljust(32, b"\0")


def test_return_data_is_bounded() -> None:
    assert run_code("600160005f3e").error == "return data out of bounds"


def test_an_address_is_the_low_20_bytes_of_a_word() -> None:
    assert to_address((1 << 200) + 5) == (5).to_bytes(20, "big")
