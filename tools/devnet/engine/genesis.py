"""Reads a genesis file in geth's format: chain parameters, state and block 0."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import ENGINE_FORKS, FORK_NAMES
from rollup_node.stages.protocol.headers import EMPTY_UNCLES_HASH, Header, header_hash
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import ZERO_HASH
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.engine.execution import ChainSpec, with_fork_fields
from rollup_node.tools.devnet.engine.forks import ExecutionSchedule
from rollup_node.tools.devnet.evm.state import GenesisError, State, StateDatabase, data, load_alloc, number

DEFAULT_BASE_FEE = 1_000_000_000


class ParsedGenesis(NamedTuple):
    """A chain's parameters, the database with its initial state, and block 0."""

    chain: ChainSpec
    store: StateDatabase
    block: Block


def parse_genesis(content: bytes) -> ParsedGenesis:
    """Parse a genesis file. Raises GenesisError for an invalid one."""
    try:
        result = json.loads(content)
    except ValueError as error:
        raise GenesisError(f"not JSON: {error}") from None
    if not isinstance(result, dict) or not isinstance(result.get("config"), dict):
        raise GenesisError("not a genesis file: expected an object with `config` and `alloc`")
    chain = chain_spec(result["config"])
    store = StateDatabase()
    return ParsedGenesis(chain, store, genesis_block(store, result, chain))


def chain_spec(config: Mapping[str, Any]) -> ChainSpec:
    """Return the chain parameters in the `config` of a genesis. Raises GenesisError."""
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
    """Return the parameters of a chain with these activation times in seconds.

    Execution needs none of the schedule's derivation parameters, so those are zero."""
    schedule = ForkSchedule(times, block_time=1, channel_timeout=0, max_sequencer_drift=0)
    return ChainSpec(chain_id, schedule, ExecutionSchedule(times), constants)


def genesis_block(store: StateDatabase, fields: Mapping[str, Any], chain: ChainSpec) -> Block:
    """Load the state and make block 0 with the fields of the forks active at its time. Raises GenesisError."""
    alloc = fields.get("alloc")
    if not isinstance(alloc, dict):
        raise GenesisError("no `alloc` object")
    state_root = load_alloc(store, alloc)
    try:
        header = genesis_header(fields, state_root)
    except (ValueError, TypeError, AttributeError) as error:
        raise GenesisError(f"header field: {error}") from None
    rules = chain.schedule.l2(header.timestamp)
    header = with_fork_fields(header, rules, State(store, state_root), ZERO_HASH, number(fields.get("blobGasUsed")))
    return Block(header_hash(header), header, ())


def genesis_header(fields: Mapping[str, Any], state_root: bytes) -> Header:
    """Return the header in a genesis file without the fields of forks after London.

    Raises ValueError, TypeError or AttributeError for a malformed field."""
    base_fee = fields.get("baseFeePerGas")
    return Header(
        parent_hash=data(fields.get("parentHash")) or ZERO_HASH,
        uncles_hash=EMPTY_UNCLES_HASH,
        miner=data(fields.get("coinbase")).rjust(20, b"\0"),
        state_root=state_root,
        transactions_root=EMPTY_ROOT,
        receipts_root=EMPTY_ROOT,
        logs_bloom=bytes(256),
        difficulty=number(fields.get("difficulty")),
        number=number(fields.get("number")),
        gas_limit=number(fields.get("gasLimit")),
        gas_used=number(fields.get("gasUsed")),
        timestamp=number(fields.get("timestamp")),
        extra_data=data(fields.get("extraData")),
        mix_hash=data(fields.get("mixHash")) or ZERO_HASH,
        nonce=number(fields.get("nonce")).to_bytes(8, "big"),
        base_fee=DEFAULT_BASE_FEE if base_fee is None else number(base_fee),
    )
