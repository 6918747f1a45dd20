"""The execution rules of L2: fees of L1 data and of the operator, and the fork table with what Canyon deploys."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec.structs import replace

from rollup_node.stages.protocol.types import L1_BLOCK, Address
from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.forks import (
    BLS_PAIRING,
    BN254_PAIRING,
    G1_SUM,
    G2_SUM,
    P256_BEFORE_OSAKA,
    P256_VERIFY,
    limited,
)
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State

_SIGNATURE_BYTES = 68
_MIN_SIZE = 100_000_000
_SIZE_COEFFICIENT = 836_500
_SIZE_INTERCEPT = 42_585_600
SIZE_SCALE = 1_000_000

_HASH_FACTOR = 2_654_435_769
_WINDOW = 8191
_LONGEST_MATCH = 262
_TAIL = 13


def _field(slot: int, shift: int = 0, bits: int = 256) -> "cached_property[int]":
    return cached_property(lambda parameters: parameters.state.storage(L1_BLOCK, slot) >> shift & (1 << bits) - 1)


class FeeParameters:
    """The fee parameters in L1Block's storage: fees in wei, scalars in millionths, the overhead in gas.

    Overhead and `scalar` are those before Ecotone. Each slot is read at its first use."""

    base_fee = _field(1)
    overhead = _field(5)
    scalar = _field(6)
    base_fee_scalar = _field(3, 96, 32)
    blob_base_fee_scalar = _field(3, 64, 32)
    blob_base_fee = _field(7)
    operator_fee_scalar = _field(8, 64, 32)
    operator_fee_constant = _field(8, 0, 64)

    def __init__(self, state: State) -> None:
        self.state = state

    @property
    def is_packed(self) -> bool:
        """Whether the packed parameters are set; they are not yet in Ecotone's activation block."""
        return bool(self.base_fee_scalar or self.blob_base_fee_scalar or self.blob_base_fee)


L1CostFunction = Callable[[FeeParameters, bytes], int]
OperatorCostFunction = Callable[[FeeParameters, int], int]


# --- L1 data fee ---------------------------------------------------------------------------------------------------


def l1_cost_bedrock(parameters: FeeParameters, raw: bytes) -> int:
    """Calldata gas with an overhead, where Bedrock adds 68 bytes for a signature that the data already has."""
    return _linear_cost(parameters, _calldata_gas(raw) + 16 * _SIGNATURE_BYTES)


def l1_cost_regolith(parameters: FeeParameters, raw: bytes) -> int:
    """Calldata gas with an overhead."""
    return _linear_cost(parameters, _calldata_gas(raw))


def l1_cost_ecotone(parameters: FeeParameters, raw: bytes) -> int:
    """Calldata gas, at the weighted price of calldata and blobs."""
    if not parameters.is_packed:
        return l1_cost_regolith(parameters, raw)
    return _calldata_gas(raw) * _weighted_price(parameters) // (16 * SIZE_SCALE)


def l1_cost_fjord(parameters: FeeParameters, raw: bytes) -> int:
    """Return the estimated compressed size, at the weighted price of calldata and blobs."""
    if not parameters.is_packed:
        return l1_cost_regolith(parameters, raw)
    return estimated_size_scaled(raw) * _weighted_price(parameters) // SIZE_SCALE**2


def estimated_size_scaled(raw: bytes) -> int:
    """Return the estimated compressed size of a transaction in millionths of a byte, by Fjord's linear regression."""
    return max(_MIN_SIZE, _SIZE_COEFFICIENT * fastlz_length(raw) - _SIZE_INTERCEPT)


def _calldata_gas(raw: bytes) -> int:
    return 16 * len(raw) - 12 * raw.count(0)


def _linear_cost(parameters: FeeParameters, gas: int) -> int:
    return (gas + parameters.overhead) * parameters.base_fee * parameters.scalar // SIZE_SCALE


def _weighted_price(parameters: FeeParameters) -> int:
    calldata = 16 * parameters.base_fee_scalar * parameters.base_fee
    return calldata + parameters.blob_base_fee_scalar * parameters.blob_base_fee


# --- operator fee --------------------------------------------------------------------------------------------------


def operator_cost_isthmus(parameters: FeeParameters, gas: int) -> int:
    """Gas times scalar in millionths, plus the constant."""
    return gas * parameters.operator_fee_scalar // SIZE_SCALE + parameters.operator_fee_constant


def operator_cost_jovian(parameters: FeeParameters, gas: int) -> int:
    """Gas times scalar times 100, plus the constant."""
    return gas * parameters.operator_fee_scalar * 100 + parameters.operator_fee_constant


# --- FastLZ --------------------------------------------------------------------------------------------------------


@lru_cache(2048)
def fastlz_length(data: bytes) -> int:
    """Return the length of the data compressed by FastLZ at level 1.

    Exactly as op-geth computes it without compressing."""
    # The compressor's control flow without its output: hash table of triples, matches, literal runs.
    seen: dict[int, int] = {}
    limit = max(len(data) - _TAIL, 0)
    total, literals_from, at = 0, 0, 2
    triple = _triple(data, 1)
    while at < limit:
        triple = triple >> 8 | data[at + 2] << 16
        slot = triple * _HASH_FACTOR >> 19 & _WINDOW
        match = seen.get(slot, 0)
        seen[slot] = at
        if at - match > _WINDOW or triple != int.from_bytes(data[match : match + 3], "little") or at + 1 >= limit:
            at += 1
            continue
        if at > literals_from:
            total += _literals_length(at - literals_from)
        length = _match_length(data, match + 3, at + 3, limit + 9)
        whole, rest = divmod(length - 1, _LONGEST_MATCH)
        total += 3 * whole + (3 if rest >= 6 else 2)
        at += length
        for _ in range(2):
            triple = _triple(data, at)
            seen[triple * _HASH_FACTOR >> 19 & _WINDOW] = at
            at += 1
        literals_from = at
    return total + _literals_length(len(data) - literals_from)


def _triple(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 3], "little")


def _literals_length(count: int) -> int:
    runs, rest = divmod(count, 32)
    return 33 * runs + (rest + 1 if rest else 0)


def _match_length(data: bytes, one: int, other: int, end: int) -> int:
    """Return the number of equal bytes from two offsets on, plus one for the first unequal byte."""
    length = 0
    while other + length < end:
        length += 1
        if data[one + length - 1] != data[other + length - 1]:
            break
    return length


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

_BEDROCK = ExecutionRules(evm=forks.PARIS, data_cost=l1_cost_bedrock)
_CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "regolith",
        {"data_cost": l1_cost_regolith, "system_deposits": False, "deposits_use_all_gas": False},
    ),
    ("canyon", {"evm": forks.SHANGHAI, "deposit_receipt_version": 1, "canyon_denominator": True}),
    ("ecotone", {"evm": _evm(forks.CANCUN, {}, own_p256=False), "data_cost": l1_cost_ecotone}),
    ("fjord", {"evm": _evm(forks.CANCUN, {}, own_p256=True), "data_cost": l1_cost_fjord}),
    ("granite", {"evm": _evm(forks.CANCUN, _GRANITE_LIMITS, own_p256=True)}),
    (
        "isthmus",
        {
            "evm": _evm(forks.PRAGUE, _ISTHMUS_LIMITS, own_p256=True),
            "operator_fee": operator_cost_isthmus,
            "block_hash_history": True,
        },
    ),
    (
        "jovian",
        {
            "evm": _evm(forks.PRAGUE, _JOVIAN_LIMITS, own_p256=True),
            "operator_fee": operator_cost_jovian,
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
