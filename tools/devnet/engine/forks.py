"""The execution rules of L2, their fork table, the genesis file, and the contract that Canyon deploys."""

import json
from bisect import bisect_right
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import ENGINE_FORKS, FORK_NAMES
from rollup_node.stages.protocol.headers import EMPTY_UNCLES_HASH, Header, header_hash
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import ZERO_HASH, Address
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.engine import rollup_cost
from rollup_node.tools.devnet.engine.execution import ChainSpec, with_fork_fields
from rollup_node.tools.devnet.engine.rollup_cost import L1CostFunction, OperatorCostFunction
from rollup_node.tools.devnet.evm.genesis import GenesisError, data, load_alloc, number
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase
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


DEFAULT_BASE_FEE = 1_000_000_000


class ParsedGenesis(NamedTuple):
    """A chain's parameters, the database with its initial state, and block 0."""

    chain: ChainSpec
    store: StateDatabase
    block: Block


def parse_genesis(content: bytes) -> ParsedGenesis:
    """Parses a genesis file. Raises GenesisError for an invalid one."""
    try:
        found = json.loads(content)
    except ValueError as error:
        raise GenesisError(f"not JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("config"), dict):
        raise GenesisError("not a genesis file: expected an object with `config` and `alloc`")
    chain = chain_spec(found["config"])
    store = StateDatabase()
    return ParsedGenesis(chain, store, genesis_block(store, found, chain))


def chain_spec(config: Mapping[str, Any]) -> ChainSpec:
    """The chain parameters in the `config` of a genesis. Raises GenesisError."""
    constants = config.get("optimism")
    if not isinstance(constants, dict):
        raise GenesisError("config: no `optimism` object; this is not the genesis of an OP Stack chain")
    chain_id = config.get("chainId")
    if type(chain_id) is not int or chain_id < 1:
        raise GenesisError("config: chainId must be a positive number")
    names = (*FORK_NAMES, *(fork.name for fork in ENGINE_FORKS))
    times = {name: time for name in names if (time := config.get(f"{name}Time")) is not None}
    for name, time in times.items():
        if type(time) is not int:
            raise GenesisError(f"config: {name}Time must be a number of seconds")
    try:
        elasticity, denominator = int(constants["eip1559Elasticity"]), int(constants["eip1559Denominator"])
    except (KeyError, TypeError, ValueError):
        raise GenesisError("config: optimism must have eip1559Elasticity and eip1559Denominator") from None
    if elasticity < 1 or denominator < 1:
        raise GenesisError("config: the EIP-1559 constants must be positive")
    return make_chain_spec(
        chain_id, times, ChainOpConfig(elasticity, denominator, constants.get("eip1559DenominatorCanyon"))
    )


def make_chain_spec(chain_id: int, times: Mapping[str, int], constants: ChainOpConfig) -> ChainSpec:
    """The parameters of a chain with these activation times in seconds.

    Execution needs none of the schedule's derivation parameters, so those are zero."""
    schedule = ForkSchedule(times, block_time=1, channel_timeout=0, max_sequencer_drift=0)
    return ChainSpec(chain_id, schedule, ExecutionSchedule(times), constants)


def genesis_block(store: StateDatabase, found: Mapping[str, Any], chain: ChainSpec) -> Block:
    """Loads the state and makes block 0 with the fields of the forks active at its time. Raises GenesisError."""
    alloc = found.get("alloc")
    if not isinstance(alloc, dict):
        raise GenesisError("no `alloc` object")
    state_root = load_alloc(store, alloc)
    try:
        header = _header(found, state_root)
    except (ValueError, TypeError, AttributeError) as error:
        raise GenesisError(f"header field: {error}") from None
    rules = chain.schedule.l2(header.timestamp)
    header = with_fork_fields(header, rules, State(store, state_root), ZERO_HASH, number(found.get("blobGasUsed")))
    return Block(header_hash(header), header, ())


def _header(found: Mapping[str, Any], state_root: bytes) -> Header:
    base_fee = found.get("baseFeePerGas")
    return Header(
        parent_hash=data(found.get("parentHash")) or ZERO_HASH,
        uncles_hash=EMPTY_UNCLES_HASH,
        miner=data(found.get("coinbase")).rjust(20, b"\0"),
        state_root=state_root,
        transactions_root=EMPTY_ROOT,
        receipts_root=EMPTY_ROOT,
        logs_bloom=bytes(256),
        difficulty=number(found.get("difficulty")),
        number=number(found.get("number")),
        gas_limit=number(found.get("gasLimit")),
        gas_used=number(found.get("gasUsed")),
        timestamp=number(found.get("timestamp")),
        extra_data=data(found.get("extraData")),
        mix_hash=data(found.get("mixHash")) or ZERO_HASH,
        nonce=number(found.get("nonce")).to_bytes(8, "big"),
        base_fee=DEFAULT_BASE_FEE if base_fee is None else number(base_fee),
    )


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
        """The rules of a block with this timestamp."""
        return self._rules[bisect_right(self._times, time)]

    def places_create2_deployer(self, time: int) -> bool:
        """Whether a block with exactly this timestamp deploys the create2 deployer [UPG4]."""
        return time == self._create2_time


def create2_deployer_code() -> bytes:
    """The code of the create2 deployer, as on the public chains."""
    text = files(__package__).joinpath("create2_deployer.hex").read_text()
    return bytes.fromhex(text)
