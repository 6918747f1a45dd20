"""The execution rules of L2, their fork table, and the contract that Canyon deploys."""

from bisect import bisect_right
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec
from msgspec.structs import replace

from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.engine import rollup_cost
from rollup_node.tools.devnet.engine.rollup_cost import L1CostFunction, OperatorCostFunction
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state_transition import forks
from rollup_node.tools.devnet.evm.state_transition.forks import (
    BLS_PAIRING,
    BN254_PAIRING,
    G1_SUM,
    G2_SUM,
    P256_BEFORE_OSAKA,
    P256_VERIFY,
    limited,
)


class ExecutionRules(msgspec.Struct, frozen=True):
    """The execution rules of one L2 block, chosen by its timestamp."""

    evm: EvmRules
    data_cost: L1CostFunction
    operator_fee: OperatorCostFunction | None = None
    system_deposits: bool = True
    deposits_use_all_gas: bool = True
    deposit_receipt_version: int | None = None
    canyon_denominator: bool = False
    block_hash_history: bool = False
    da_footprint: bool = False


CREATE2_DEPLOYER: Address = bytes.fromhex("13b0d85ccb8bf860b6b79af3029fca081ae9bef2")


def _evm(base: EvmRules, limits: Mapping[Address, int], own_p256: bool) -> EvmRules:
    """Ethereum's rules without blobs, with the OP Stack's input limits and, before Osaka, its P256VERIFY."""
    precompiles = dict(base.precompiles)
    if own_p256:
        precompiles[P256_VERIFY] = P256_BEFORE_OSAKA
    for address, size in limits.items():
        precompiles[address] = limited(precompiles[address], size)
    return replace(base, precompiles=precompiles, blobs=None)


_GRANITE_LIMITS = {BN254_PAIRING: 112_687}
_ISTHMUS_LIMITS = _GRANITE_LIMITS | {G1_SUM: 513_760, G2_SUM: 488_448, BLS_PAIRING: 235_008}
_JOVIAN_LIMITS = {BN254_PAIRING: 81_984, G1_SUM: 288_960, G2_SUM: 278_784, BLS_PAIRING: 156_672}
_KARST_LIMITS = _JOVIAN_LIMITS | {BN254_PAIRING: 57_600}

_BEDROCK = ExecutionRules(evm=forks.PARIS, data_cost=rollup_cost.l1_cost_bedrock)
_CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "regolith",
        {"data_cost": rollup_cost.l1_cost_regolith, "system_deposits": False, "deposits_use_all_gas": False},
    ),
    ("canyon", {"evm": forks.SHANGHAI, "deposit_receipt_version": 1, "canyon_denominator": True}),
    ("ecotone", {"evm": _evm(forks.CANCUN, {}, own_p256=False), "data_cost": rollup_cost.l1_cost_ecotone}),
    ("fjord", {"evm": _evm(forks.CANCUN, {}, own_p256=True), "data_cost": rollup_cost.l1_cost_fjord}),
    ("granite", {"evm": _evm(forks.CANCUN, _GRANITE_LIMITS, own_p256=True)}),
    (
        "isthmus",
        {
            "evm": _evm(forks.PRAGUE, _ISTHMUS_LIMITS, own_p256=True),
            "operator_fee": rollup_cost.operator_cost_isthmus,
            "block_hash_history": True,
        },
    ),
    (
        "jovian",
        {
            "evm": _evm(forks.PRAGUE, _JOVIAN_LIMITS, own_p256=True),
            "operator_fee": rollup_cost.operator_cost_jovian,
            "da_footprint": True,
        },
    ),
    ("karst", {"evm": _evm(forks.OSAKA, _KARST_LIMITS, own_p256=False)}),
)
_PLACES_CREATE2_DEPLOYER = "canyon"


class ExecutionSchedule:
    """The execution rules of a chain by L2 block time, made from its activation times in seconds."""

    def __init__(self, times: Mapping[str, int]) -> None:
        present = [(times[name], changes) for name, changes in _CHANGES if name in times]
        self._times = sorted({time for time, _ in present})
        self._rules = [_BEDROCK]
        for boundary in self._times:
            active = {key: value for time, changes in present if time <= boundary for key, value in changes.items()}
            self._rules.append(replace(_BEDROCK, **active))
        self._create2_time = times.get(_PLACES_CREATE2_DEPLOYER)

    def at(self, time: int) -> ExecutionRules:
        """Return the rules of a block with this timestamp."""
        return self._rules[bisect_right(self._times, time)]

    def places_create2_deployer(self, time: int) -> bool:
        """Whether a block with exactly this timestamp deploys the create2 deployer [UPG4]."""
        return time == self._create2_time


def create2_deployer_code() -> bytes:
    """Return the code of the create2 deployer, as on the public chains."""
    text = files(__package__).joinpath("create2_deployer.hex").read_text()
    return bytes.fromhex(text)
