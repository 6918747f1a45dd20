"""Precompiles against known answers (values of go-ethereum's test data) and the input limits of L2 forks."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.tools.devnet.engine.forks import ExecutionSchedule
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.state_transition import forks

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_known_answers(vector: dict[str, Any]) -> None:
    precompile = getattr(forks, vector["fork"].upper()).precompiles[forks.at(vector["address"])]
    data = bytes.fromhex(vector["input"])
    if vector["output"] is None:
        with pytest.raises(ExceptionalHalt):
            precompile.gas(data)
            precompile.run(data)
        return
    assert precompile.run(data).hex() == vector["output"]
    assert precompile.gas(data) == vector["gas"]


@given(st.sampled_from(sorted(forks.OSAKA.precompiles)), st.binary(max_size=400))
@settings(max_examples=150)
def test_no_input_does_more_than_fault(address: bytes, data: bytes) -> None:
    if address == forks.at(9):
        data = bytes(2) + data[2:]
    precompile = forks.OSAKA.precompiles[address]
    try:
        if precompile.gas(data) < 10**7:
            assert isinstance(precompile.run(data), bytes)
    except ExceptionalHalt:
        pass


@pytest.mark.parametrize(
    ("fork", "address", "limit"),
    [
        ("granite", 0x08, 112_687),
        ("isthmus", 0x0C, 513_760),
        ("isthmus", 0x0E, 488_448),
        ("isthmus", 0x0F, 235_008),
        ("jovian", 0x08, 81_984),
        ("jovian", 0x0C, 288_960),
        ("jovian", 0x0E, 278_784),
        ("jovian", 0x0F, 156_672),
        ("karst", 0x08, 57_600),
    ],
)
def test_l2_input_limits(fork: str, address: int, limit: int) -> None:
    order = ("regolith", "canyon", "ecotone", "fjord", "granite", "isthmus", "jovian", "karst")
    schedule = ExecutionSchedule({name: 0 for name in order[: order.index(fork) + 1]})
    precompile = schedule.at(0).evm.precompiles[forks.at(address)]
    with pytest.raises(ExceptionalHalt, match="input of more than"):
        precompile.run(bytes(limit + 1))


def test_p256_is_there_from_fjord_on_and_costs_more_from_osaka_on() -> None:
    times = {"regolith": 0, "canyon": 0, "ecotone": 0, "fjord": 10, "karst": 20}
    schedule = ExecutionSchedule(times)
    assert forks.P256_VERIFY not in schedule.at(9).evm.precompiles
    assert schedule.at(10).evm.precompiles[forks.P256_VERIFY].gas(b"") == 3450
    assert schedule.at(20).evm.precompiles[forks.P256_VERIFY].gas(b"") == 6900
