"""Rules by block time, fees by hand-computed values, the FastLZ length of known data, and the create2 deployer."""

import pytest

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import L1_BLOCK
from rollup_node.tools.devnet.engine import forks
from rollup_node.tools.devnet.engine.forks import (
    ExecutionSchedule,
    FeeParameters,
    create2_deployer_code,
    fastlz_length,
)
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.forks import (
    G1_SUM,
    P256_VERIFY,
    at,
)
from rollup_node.tools.devnet.evm.state import State, StateDatabase

RAW = b"\x00" * 10 + b"\x01" * 20


def parameters(**slots: int) -> FeeParameters:
    state = State(StateDatabase())
    for name, value in slots.items():
        state.set_storage(L1_BLOCK, int(name.removeprefix("slot")), value)
    return FeeParameters(state)


def test_l1_cost_by_fork() -> None:
    old = parameters(slot1=1000, slot5=188, slot6=684_000)
    gas = 4 * 10 + 16 * 20
    assert forks.l1_cost_bedrock(old, RAW) == (gas + 68 * 16 + 188) * 1000 * 684_000 // 10**6
    assert forks.l1_cost_regolith(old, RAW) == (gas + 188) * 1000 * 684_000 // 10**6
    for cost in (forks.l1_cost_ecotone, forks.l1_cost_fjord):
        assert cost(old, RAW) == forks.l1_cost_regolith(old, RAW)
    new = parameters(slot1=1000, slot3=2 << 96 | 3 << 64 | 77, slot7=50)
    price = 16 * 2 * 1000 + 3 * 50
    assert forks.l1_cost_ecotone(new, RAW) == gas * price // 16_000_000
    assert forks.l1_cost_fjord(new, RAW) == 100 * price // 10**6


def test_operator_cost_by_fork() -> None:
    operator = parameters(slot8=400 << 96 | 7_000 << 64 | 9)
    assert forks.operator_cost_isthmus(operator, 21_000) == 21_000 * 7000 // 10**6 + 9
    assert forks.operator_cost_jovian(operator, 21_000) == 21_000 * 7000 * 100 + 9


@pytest.mark.parametrize(
    ("data", "length"),
    [(b"", 0), (b"a", 2), (bytes(1000), 21), (b"\x01" * 1000, 21), (bytes(range(256)), 264), (b"abc" * 40, 13)],
)
def test_known_lengths(data: bytes, length: int) -> None:
    assert fastlz_length(data) == length


ORDER = ("regolith", "canyon", "ecotone", "fjord", "granite", "isthmus", "jovian", "karst")
CREATE2_DEPLOYER_CODE_HASH = "b0550b5b431e30d38000efb7107aaa0ade03d48a7198a140edda9d27134468b2"
"""As op-geth and op-node have it."""
SCHEDULE = ExecutionSchedule({name: 10 * number for number, name in enumerate(ORDER, 1)})


def test_rules_change_at_the_activation_time() -> None:
    assert SCHEDULE.at(9).deposits_use_all_gas and not SCHEDULE.at(10).deposits_use_all_gas
    assert SCHEDULE.at(19).deposit_receipt_version is None
    assert SCHEDULE.at(20).deposit_receipt_version == 1 and SCHEDULE.at(20).canyon_denominator
    names = [SCHEDULE.at(time).evm.name for time in (5, 20, 30, 60, 80)]
    assert names == ["paris", "shanghai", "cancun", "prague", "osaka"]


def test_fees_by_fork() -> None:
    costs = [getattr(forks, f"l1_cost_{fork}") for fork in ("bedrock", "regolith", "ecotone", "fjord", "fjord")]
    assert [SCHEDULE.at(time).data_cost for time in (5, 15, 35, 45, 85)] == costs
    operator_fees = [None, forks.operator_cost_isthmus, forks.operator_cost_jovian]
    assert [SCHEDULE.at(time).operator_fee for time in (59, 60, 70)] == operator_fees
    assert [SCHEDULE.at(time).da_footprint for time in (69, 70)] == [False, True]


def test_precompiles_by_fork() -> None:
    assert P256_VERIFY not in SCHEDULE.at(35).evm.precompiles
    assert [SCHEDULE.at(time).evm.precompiles[P256_VERIFY].gas(b"") for time in (45, 85)] == [3450, 6900]
    assert G1_SUM not in SCHEDULE.at(55).evm.precompiles and G1_SUM in SCHEDULE.at(60).evm.precompiles
    assert SCHEDULE.at(85).evm.blobs is None


def test_the_create2_deployer() -> None:
    assert [SCHEDULE.places_create2_deployer(time) for time in (19, 20, 21)] == [False, True, False]
    assert not ExecutionSchedule({}).places_create2_deployer(0)
    assert keccak256(create2_deployer_code()).hex() == CREATE2_DEPLOYER_CODE_HASH


@pytest.mark.parametrize(
    ("fork", "address", "limit"),
    [
        ("granite", 0x08, 112_687),
        ("isthmus", 0x0C, 513_760),
        ("jovian", 0x08, 81_984),
        ("jovian", 0x0F, 156_672),
        ("karst", 0x08, 57_600),
    ],
)
def test_limits_of_precompile_input(fork: str, address: int, limit: int) -> None:
    schedule = ExecutionSchedule({name: 0 for name in ORDER[: ORDER.index(fork) + 1]})
    precompile = schedule.at(0).evm.precompiles[at(address)]
    with pytest.raises(ExceptionalHalt, match="input of more than"):
        precompile.run(bytes(limit + 1))
