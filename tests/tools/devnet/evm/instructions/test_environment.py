"""Instructions that read the call, the transaction and the block."""

import pytest

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
