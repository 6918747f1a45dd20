"""The fork table of L2 execution: rules by block time, and the create2 deployer."""

import pytest

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.engine import rollup_cost
from rollup_node.tools.devnet.engine.forks import ExecutionSchedule, create2_deployer_code
from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt
from rollup_node.tools.devnet.evm.state_transition.forks import (
    G1_SUM,
    P256_VERIFY,
    at,
)

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
    costs = [getattr(rollup_cost, f"l1_cost_{fork}") for fork in ("bedrock", "regolith", "ecotone", "fjord", "fjord")]
    assert [SCHEDULE.at(time).data_cost for time in (5, 15, 35, 45, 85)] == costs
    operator_fees = [None, rollup_cost.operator_cost_isthmus, rollup_cost.operator_cost_jovian]
    assert [SCHEDULE.at(time).operator_fee for time in (59, 60, 70)] == operator_fees
    assert [SCHEDULE.at(time).da_footprint for time in (69, 70)] == [False, True]


def test_precompiles_by_fork() -> None:
    assert P256_VERIFY not in SCHEDULE.at(35).evm.precompiles
    assert [SCHEDULE.at(time).evm.precompiles[P256_VERIFY].gas(b"") for time in (45, 85)] == [3450, 6900]
    assert G1_SUM not in SCHEDULE.at(55).evm.precompiles and G1_SUM in SCHEDULE.at(60).evm.precompiles
    assert SCHEDULE.at(85).evm.blobs is None


def test_forks_without_a_time_are_inactive() -> None:
    schedule = ExecutionSchedule({"regolith": 0, "canyon": 0})
    assert schedule.at(1 << 40).evm.name == "shanghai"
    assert ExecutionSchedule({}).at(0).system_deposits


def test_the_create2_deployer() -> None:
    assert [SCHEDULE.places_create2_deployer(time) for time in (19, 20, 21)] == [False, True, False]
    assert not ExecutionSchedule({}).places_create2_deployer(0)
    assert keccak256(create2_deployer_code()).hex() == CREATE2_DEPLOYER_CODE_HASH


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
def test_limits_of_precompile_input(fork: str, address: int, limit: int) -> None:
    schedule = ExecutionSchedule({name: 0 for name in ORDER[: ORDER.index(fork) + 1]})
    precompile = schedule.at(0).evm.precompiles[at(address)]
    with pytest.raises(ExceptionalHalt, match="input of more than"):
        precompile.run(bytes(limit + 1))
