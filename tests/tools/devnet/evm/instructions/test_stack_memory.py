"""Stack and memory instructions."""

import pytest

from tests.support.chains.evm_programs import GAS, result_of, run_code


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("6001600250", 1),
        ("6001600281", 1),
        ("6001600280", 2),
        ("6001600290", 1),
        ("600160026003600490" + "50", 4),
        ("602a5f52" + "5f51", 42),
        ("602a601f53" + "5f51", 42),
        ("61012a601f53" + "5f51", 42),
        ("59", 0),
        ("60ff601f53" + "59", 32),
        ("602a5f52" + "602060005f5e" + "5f51", 42),
        ("602a5f52" + "60205f60205e" + "602051", 42),
    ],
)
def test_results(code: str, result: int) -> None:
    assert result_of(code) == result


def test_memory_costs_grow_quadratically() -> None:
    assert GAS - run_code("61ffff51").gas == 3 + 3 + 3 * 2049 + 2049 * 2049 // 512
    assert GAS - run_code("5f51").gas == 2 + 3 + 3
    assert run_code("7f" + "ff" * 32 + "51").error == "out of gas: memory"
