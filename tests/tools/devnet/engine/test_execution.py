"""L2 execution: recorded OP Sepolia blocks, and the rules of each fork on a test chain."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.engine_json import attributes_from_json
from rollup_node.stages.protocol.headers import Header, header_from_json, header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.receipts import decode_receipt
from rollup_node.stages.protocol.types import OPERATOR_FEE_VAULT, SEQUENCER_FEE_VAULT
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.engine.backend import L2Backend
from rollup_node.tools.devnet.engine.execution import (
    BASE_FEE_VAULT,
    L1_FEE_VAULT,
    ChainSpec,
    InvalidBlock,
    L2Execution,
    block_attributes,
    l2_base_fee,
)
from rollup_node.tools.devnet.engine.forks import CREATE2_DEPLOYER
from rollup_node.tools.devnet.engine.genesis import make_chain_spec
from rollup_node.tools.devnet.evm.state import State, StateDatabase, data
from rollup_node.tools.devnet.evm.transactions import Deposit, read_transaction
from rollup_node.tools.devnet.evm.transition import BEACON_ROOTS, BLOCK_HASHES, ExecutedTransaction
from rollup_node.tools.recorded.encoded_blocks import decode_header
from tests.support.chains.l2_test_chain import L2TestChain

USER, RECEIVER, HALTING = b"\xee" * 20, b"\xdd" * 20, b"\xcc" * 20


class Chain:
    """A test chain with the backend that executes it; `l2` makes its transactions."""

    def __init__(self, newest: str = "jovian", later: dict[str, int] | None = None, alloc: Any = ()) -> None:
        self.l2 = L2TestChain(newest, later)
        self.l2.file["alloc"] |= alloc
        self.backend: L2Backend = self.l2.backend()

    def extend(self, *transactions: bytes, **values: Any) -> Block:
        """Put a block of these transactions on the head."""
        return self.l2.extend(self.backend, *transactions, **values)

    def deposit(self, **values: Any) -> ExecutedTransaction:
        """Execute a deposit of USER in a block of its own."""
        return self.extend(self.l2.deposit(USER, **values)).executed[1]

    @property
    def state(self) -> State:
        """The state after the head."""
        return State(self.backend.store, self.backend.chain.head.header.state_root)


# --- recorded blocks -----------------------------------------------------------------------------------------------


class RecordedL2Block:
    """A block of OP Sepolia with the state nodes that its execution reads."""

    def __init__(self, path: Path) -> None:
        result = json.loads(gzip.decompress(path.read_bytes()))
        fixture = result["fixture"]
        self.witness = {data(key): data(value) for key, value in result["kv"].items()}
        self.store = StateDatabase(self.witness, self.witness)
        self.parent: Header = header_from_json(fixture["parent_header"])
        self.attributes = attributes_from_json(fixture["executing_payload"])
        self.expected: str = fixture["expected_block_hash"]
        config = fixture["rollup_config"]
        times = {key[:-5]: value for key, value in config.items() if key.endswith("_time") and value is not None}
        self.chain: ChainSpec = make_chain_spec(
            config["l2_chain_id"], times | {"regolith": 0}, ChainOpConfig(6, 50, 250)
        )

    def block_hash(self, number: int) -> bytes:
        result, at = header_hash(self.parent), self.parent.number
        while at > number:
            result, at = decode_header(self.witness[result]).parent_hash, at - 1
        return result


@pytest.mark.parametrize("number", [26207960, 26207962, 26208384])
def test_recorded_blocks_execute_to_their_hash(shared_data: Path, number: int) -> None:
    real = RecordedL2Block(shared_data / "engine_blocks" / f"op-sepolia-{number}.json.gz")
    parent = Block(header_hash(real.parent), real.parent, ())
    attributes = block_attributes(real.chain, real.attributes)
    execution = L2Execution(real.chain, real.store, parent, attributes, real.block_hash)
    for raw in real.attributes.transactions:
        execution.apply(read_transaction(raw, real.chain.chain_id))
    assert "0x" + execution.seal().hash.hex() == real.expected


# --- headers and system contracts by fork --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("newest", "params", "minimum", "expected"),
    [
        ("fjord", None, None, ""),
        ("holocene", "0000000000000000", None, "00000000fa00000006"),
        ("holocene", "0000000a00000002", None, "000000000a00000002"),
        ("jovian", "0000000a00000002", 5, "010000000a000000020000000000000005"),
    ],
)
def test_extra_data_has_the_parameters_of_the_attributes_or_the_constants(
    newest: str, params: str | None, minimum: int | None, expected: str
) -> None:
    values = None if params is None else bytes.fromhex(params)
    block = Chain(newest).extend(eip1559_params=values, min_base_fee=minimum)
    assert block.header.extra_data.hex() == expected


def test_system_contracts_store_beacon_root_and_parent_hash() -> None:
    chain = Chain("isthmus")
    parent = chain.backend.chain.head.hash
    header, state = chain.extend().header, chain.state
    assert state.storage(BEACON_ROOTS, header.timestamp % 8191) == header.timestamp
    assert state.storage(BEACON_ROOTS, header.timestamp % 8191 + 8191) == int.from_bytes(b"\x04" * 32, "big")
    assert state.storage(BLOCK_HASHES, 0) == int.from_bytes(parent, "big")


@pytest.mark.parametrize(("time", "placed"), [(1002, True), (1003, False)])
def test_the_create2_deployer_is_deployed_by_a_block_at_canyons_time_only(time: int, placed: bool) -> None:
    chain = Chain("regolith", {"canyon": time})
    chain.extend()
    chain.extend()
    assert bool(chain.state.code(CREATE2_DEPLOYER)) == placed


# --- fees ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest", ["regolith", "canyon", "ecotone", "fjord", "isthmus", "jovian"])
def test_fees_go_to_the_vaults_and_no_wei_is_lost(newest: str) -> None:
    chain = Chain(newest)
    sender = chain.l2.keys[0].address
    before = chain.state.balance(sender)
    block = chain.extend(chain.l2.transfer(0, 0, value=5))
    entry, state = block.executed[1], chain.state
    vaults = {
        BASE_FEE_VAULT: entry.result.gas_used * (block.header.base_fee or 0),
        SEQUENCER_FEE_VAULT: entry.result.gas_used * 10**6,
        L1_FEE_VAULT: int(str(entry.extra["l1Fee"]), 16),
    }
    if chain.l2.spec.execution.at(1002).operator_fee is not None:
        scalar = 700 if newest == "jovian" else 0
        vaults[OPERATOR_FEE_VAULT] = entry.result.gas_used * scalar + 9 + (0 if scalar else 21_000 * 7 // 10**6)
    assert {vault: state.balance(vault) for vault in vaults} == vaults and vaults[L1_FEE_VAULT] > 0
    assert state.balance(sender) == before - 5 - sum(vaults.values())


def test_ecotones_activation_block_charges_the_former_l1_fee() -> None:
    chains = Chain("regolith", {"canyon": 1002, "ecotone": 1002}), Chain("regolith")
    fees = [chain.extend(chain.l2.transfer(0, 0)).executed[1].extra["l1Fee"] for chain in chains]
    assert fees[0] == fees[1] != "0x0"


def test_base_fee_uses_the_parents_parameters_and_the_minimum() -> None:
    chain, params = Chain(), bytes.fromhex("0000000200000002")
    head = chain.extend(eip1559_params=params, min_base_fee=0)
    assert chain.backend.next_base_fee(head) < (head.header.base_fee or 0) * 6 // 10
    head = chain.extend(eip1559_params=params, min_base_fee=10**10)
    assert chain.backend.next_base_fee(head) == 10**10


def test_the_da_footprint_counts_towards_base_fee_and_gas_limit() -> None:
    chain = Chain()
    l2, backend = chain.l2, chain.backend
    header = chain.extend(l2.transfer(0, 0), l2.transfer(0, 1)).header
    assert header.blob_gas_used == 2 * 100 * 400
    heavy = l2.info(header.timestamp + 2, da_footprint_gas_scalar=65_535)
    transactions = (heavy, l2.transfer(0, 2, data=bytes(range(256)) * 20, gas=500_000))
    small_limit = l2.attributes(header, gas_limit=6_000_000, transactions=transactions)
    with pytest.raises(InvalidBlock, match="DA footprint"):
        backend.begin(backend.chain.head, small_limit)
    enough = chain.extend(gas_limit=60_000_000, transactions=(heavy, l2.transfer(0, 2))).header
    assert enough.blob_gas_used == 100 * 65_535 > enough.gas_used
    lighter = chain.extend().header
    assert lighter.base_fee == l2_base_fee(backend.spec, enough, lighter.timestamp)


def test_jovians_activation_block_has_no_user_transactions() -> None:
    chain = Chain("isthmus", {"jovian": 1002})
    with pytest.raises(InvalidBlock, match="activates the DA footprint"):
        chain.extend(chain.l2.transfer(0, 0))
    assert chain.extend().header.blob_gas_used == 0


# --- deposits ------------------------------------------------------------------------------------------------------


def test_a_deposit_mints_and_calls() -> None:
    chain = Chain()
    entry, state = chain.deposit(to=RECEIVER, mint=100, value=30), chain.state
    assert (state.balance(USER), state.balance(RECEIVER), state.nonce(USER)) == (70, 30, 1)
    assert entry.result.succeeded and entry.result.gas_used == 21_000
    assert entry.extra == {"depositNonce": "0x0", "depositReceiptVersion": "0x1"}


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"value": 101}, "insufficient funds"),
        ({"gas": 20_000}, "intrinsic gas"),
        ({"is_system": True}, "system transactions"),
        ({"to": None, "data": bytes(0xC001), "gas": 9_000_000}, "initcode"),
        ({"data": bytes(1000), "gas": 30_999}, "intrinsic gas"),
        ({"to": HALTING, "value": 10}, "invalid opcode 0xfe"),
    ],
)
def test_a_failed_deposit_keeps_its_mint_and_uses_all_gas(values: dict[str, Any], error: str) -> None:
    chain = Chain(alloc={to_hex(HALTING): {"code": "0xfe", "nonce": "0x1"}})
    entry, state = chain.deposit(**{"to": RECEIVER, "mint": 100, **values}), chain.state
    assert not entry.result.succeeded and error in entry.result.error
    assert entry.result.gas_used == values.get("gas", 100_000)
    assert (state.balance(USER), state.nonce(USER)) == (100, 1)


def test_a_deposit_can_create() -> None:
    chain = Chain()
    entry = chain.deposit(to=None, data=bytes.fromhex("60015f5360015ff3"))
    assert entry.result.succeeded and entry.result.created is not None
    assert chain.state.code(entry.result.created) == b"\x01"


def test_before_regolith_deposits_use_all_gas_and_system_deposits_none() -> None:
    chain = Chain("")
    block = chain.extend(chain.l2.deposit(USER, RECEIVER), gas_limit=20_000_000)
    info, user = block.executed
    assert isinstance(info.transaction, Deposit)
    assert info.transaction.body.is_system and info.transaction.body.gas == 150_000_000
    assert info.result.succeeded and info.result.gas_used == 0
    assert user.result.gas_used == 100_000 and block.header.gas_used == 100_000
    assert user.extra == {}


@pytest.mark.parametrize(("newest", "tail"), [("regolith", b""), ("canyon", b"\x01\x01"), ("jovian", b"\x01\x01")])
def test_deposit_receipts_have_nonce_and_version_from_canyon_on(newest: str, tail: bytes) -> None:
    chain = Chain(newest)
    chain.extend()
    receipt = chain.extend().executed[0].receipt
    assert receipt.endswith(tail) and receipt[0] == 0x7E
    assert decode_receipt(receipt).succeeded


# --- invalid blocks ------------------------------------------------------------------------------------------------


def test_invalid_blocks_have_an_error() -> None:
    """Those of one transaction are compared with other engines in tests/interop/test_engine_answers.py."""
    chain = Chain()
    l2, head = chain.l2, chain.backend.chain.head
    cases: dict[str, PayloadAttributes] = {
        "transaction 2: nonce too low": l2.attributes(head.header, l2.transfer(0, 0), l2.transfer(0, 0)),
        "transaction 2: malformed": l2.attributes(head.header, l2.transfer(0, 9), b"\x02\xc0", b"\x05"),
        "transaction 1: gas limit of the block reached": l2.attributes(
            head.header, l2.deposit(USER, RECEIVER, gas=60_000_001)
        ),
        "timestamp": l2.attributes(head.header, seconds=0),
        "elasticity": l2.attributes(head.header, eip1559_params=bytes.fromhex("0000000100000000")),
    }
    for reason, attributes in cases.items():
        with pytest.raises(InvalidBlock, match=reason):
            chain.backend.begin(head, attributes)
    assert chain.extend(l2.transfer(0, 0)).header.gas_used > 0
