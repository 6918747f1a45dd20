"""L2 execution: recorded OP Sepolia blocks, and the rules of each fork on a test chain."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.engine_json import attributes_from_json
from rollup_node.stages.protocol.headers import Header, decode_header, header_from_json, header_hash
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ordered_root
from rollup_node.stages.protocol.receipts import decode_receipt
from rollup_node.stages.protocol.types import (
    L2_TO_L1_MESSAGE_PASSER,
    OPERATOR_FEE_VAULT,
    SEQUENCER_FEE_VAULT,
)
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
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition.transition import BEACON_ROOTS, BLOCK_HASHES
from rollup_node.tools.devnet.evm.transactions import Deposit, read_transaction
from tests.support.chains.l2_test_chain import L2TestChain

USER, RECEIVER = b"\xee" * 20, b"\xdd" * 20


def state_after(backend: L2Backend) -> State:
    """Return the state after the head."""
    return State(backend.store, backend.chain.head.header.state_root)


# --- recorded blocks -----------------------------------------------------------------------------------------------


class RecordedL2Block:
    """A block of OP Sepolia with the state nodes that its execution reads."""

    def __init__(self, path: Path) -> None:
        result = json.loads(gzip.decompress(path.read_bytes()))
        fixture = result["fixture"]
        self.witness = {_data(key): _data(value) for key, value in result["kv"].items()}
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


def _data(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


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
    ("newest", "fields"),
    [
        ("regolith", 16),
        ("canyon", 17),
        ("ecotone", 20),
        ("holocene", 20),
        ("isthmus", 21),
        ("jovian", 21),
        ("karst", 21),
    ],
)
def test_headers_have_the_fields_of_their_fork(newest: str, fields: int) -> None:
    l2 = L2TestChain(newest)
    backend = l2.backend()
    header = l2.extend(backend, l2.transfer(0, 0)).header
    optional = (
        header.withdrawals_root,
        header.blob_gas_used,
        header.excess_blob_gas,
        header.parent_beacon_root,
        header.requests_hash,
    )
    assert 16 + sum(value is not None for value in optional) == fields
    state = state_after(backend)
    passer_root = state.storage_root(L2_TO_L1_MESSAGE_PASSER)
    expected_root = {16: None, 17: EMPTY_ROOT, 20: EMPTY_ROOT, 21: passer_root}
    assert header.withdrawals_root == expected_root[fields]
    assert header.transactions_root == ordered_root([entry.raw for entry in backend.chain.head.transactions])


def test_extra_data_has_the_parameters_of_the_attributes_or_the_constants() -> None:
    for newest, params, minimum, expected in (
        ("fjord", None, None, ""),
        ("holocene", bytes(8), None, "00000000fa00000006"),
        ("holocene", bytes.fromhex("0000000a00000002"), None, "000000000a00000002"),
        ("jovian", bytes.fromhex("0000000a00000002"), 5, "010000000a000000020000000000000005"),
    ):
        l2 = L2TestChain(newest)
        block = l2.extend(l2.backend(), eip1559_params=params, min_base_fee=minimum)
        assert block.header.extra_data.hex() == expected


def test_system_contracts_store_beacon_root_and_parent_hash() -> None:
    l2 = L2TestChain("isthmus")
    backend = l2.backend()
    parent = backend.chain.head.hash
    header = l2.extend(backend).header
    state = state_after(backend)
    assert state.storage(BEACON_ROOTS, header.timestamp % 8191) == header.timestamp
    assert state.storage(BEACON_ROOTS, header.timestamp % 8191 + 8191) == int.from_bytes(b"\x04" * 32, "big")
    assert state.storage(BLOCK_HASHES, 0) == int.from_bytes(parent, "big")


def test_the_create2_deployer_is_deployed_by_a_block_at_canyons_time_only() -> None:
    for time, placed in ((1002, True), (1003, False)):
        l2 = L2TestChain("regolith", {"canyon": time})
        backend = l2.backend()
        l2.extend(backend)
        l2.extend(backend)
        assert bool(state_after(backend).code(CREATE2_DEPLOYER)) == placed


# --- fees ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest", ["regolith", "canyon", "ecotone", "fjord", "isthmus", "jovian"])
def test_fees_go_to_the_vaults_and_no_wei_is_lost(newest: str) -> None:
    l2 = L2TestChain(newest)
    backend = l2.backend()
    sender = l2.keys[0].address
    before = state_after(backend).balance(sender)
    block = l2.extend(backend, l2.transfer(0, 0, value=5))
    entry = block.executed[1]
    state = state_after(backend)
    vaults = {
        BASE_FEE_VAULT: entry.result.gas_used * (block.header.base_fee or 0),
        SEQUENCER_FEE_VAULT: entry.result.gas_used * 10**6,
        L1_FEE_VAULT: int(str(entry.extra["l1Fee"]), 16),
    }
    if l2.spec.execution.at(1002).operator_fee is not None:
        scalar = 700 if newest == "jovian" else 0
        vaults[OPERATOR_FEE_VAULT] = entry.result.gas_used * scalar + 9 + (0 if scalar else 21_000 * 7 // 10**6)
    for vault, amount in vaults.items():
        assert state.balance(vault) == amount
    assert state.balance(L1_FEE_VAULT) > 0
    assert state.balance(sender) == before - 5 - sum(vaults.values())


def test_ecotones_activation_block_charges_the_former_l1_fee() -> None:
    l2 = L2TestChain("regolith", {"canyon": 1002, "ecotone": 1002})
    old = L2TestChain("regolith")
    fees = []
    for item in (l2, old):
        backend = item.backend()
        fees.append(item.extend(backend, item.transfer(0, 0)).executed[1].extra["l1Fee"])
    assert fees[0] == fees[1] != "0x0"


def test_base_fee_uses_the_parents_parameters_and_the_minimum() -> None:
    l2 = L2TestChain("jovian")
    backend = l2.backend()
    l2.extend(backend, eip1559_params=bytes.fromhex("0000000200000002"), min_base_fee=0)
    falling = backend.next_base_fee(backend.chain.head)
    assert falling < (backend.chain.head.header.base_fee or 0) * 6 // 10
    l2.extend(backend, eip1559_params=bytes.fromhex("0000000200000002"), min_base_fee=10**10)
    assert backend.next_base_fee(backend.chain.head) == 10**10


def test_the_da_footprint_counts_towards_base_fee_and_gas_limit() -> None:
    l2 = L2TestChain("jovian")
    backend = l2.backend()
    header = l2.extend(backend, l2.transfer(0, 0), l2.transfer(0, 1)).header
    assert header.blob_gas_used == 2 * 100 * 400
    heavy = l2.info(header.timestamp + 2, da_footprint_gas_scalar=65_535)
    transactions = (heavy, l2.transfer(0, 2, data=bytes(range(256)) * 20, gas=500_000))
    small_limit = l2.attributes(header, gas_limit=6_000_000, transactions=transactions)
    with pytest.raises(InvalidBlock, match="DA footprint"):
        backend.begin(backend.chain.head, small_limit)
    enough = l2.extend(backend, gas_limit=60_000_000, transactions=(heavy, l2.transfer(0, 2)))
    assert enough.header.blob_gas_used == 100 * 65_535 > enough.header.gas_used
    chain = backend.spec
    lighter = l2.extend(backend).header
    assert lighter.base_fee == l2_base_fee(chain, enough.header, lighter.timestamp)


def test_jovians_activation_block_has_no_user_transactions() -> None:
    l2 = L2TestChain("isthmus", {"jovian": 1002})
    backend = l2.backend()
    with pytest.raises(InvalidBlock, match="activates the DA footprint"):
        l2.extend(backend, l2.transfer(0, 0))
    assert l2.extend(backend).header.blob_gas_used == 0


# --- deposits ------------------------------------------------------------------------------------------------------


def test_a_deposit_mints_and_calls() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    block = l2.extend(backend, l2.deposit(USER, RECEIVER, mint=100, value=30))
    state, entry = state_after(backend), block.executed[1]
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
    ],
)
def test_a_failed_deposit_keeps_its_mint_and_uses_all_gas(values: dict[str, Any], error: str) -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    fields: dict[str, Any] = {"mint": 100, "to": RECEIVER} | values
    entry = l2.extend(backend, l2.deposit(USER, **fields)).executed[1]
    state = state_after(backend)
    assert not entry.result.succeeded and error in entry.result.error
    assert entry.result.gas_used == values.get("gas", 100_000)
    assert (state.balance(USER), state.nonce(USER)) == (100, 1)


def test_a_deposit_whose_code_halts_keeps_its_mint() -> None:
    l2 = L2TestChain()
    l2.file["alloc"]["0x" + RECEIVER.hex()] = {"code": "0xfe", "nonce": "0x1"}
    backend = l2.backend()
    entry = l2.extend(backend, l2.deposit(USER, RECEIVER, mint=100, value=10)).executed[1]
    assert not entry.result.succeeded and entry.result.gas_used == 100_000
    assert state_after(backend).balance(USER) == 100


def test_a_deposit_can_create() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    entry = l2.extend(backend, l2.deposit(USER, None, data=bytes.fromhex("60015f5360015ff3"))).executed[1]
    assert entry.result.succeeded and entry.result.created is not None
    assert state_after(backend).code(entry.result.created) == b"\x01"


def test_deposits_must_fit_into_the_block() -> None:
    l2 = L2TestChain()
    with pytest.raises(InvalidBlock, match="transaction 1: gas limit of the block reached"):
        l2.extend(l2.backend(), l2.deposit(USER, RECEIVER, gas=60_000_001))


def test_before_regolith_deposits_use_all_gas_and_system_deposits_none() -> None:
    l2 = L2TestChain("")
    block = l2.extend(l2.backend(), l2.deposit(USER, RECEIVER), gas_limit=20_000_000)
    info, user = block.executed
    assert isinstance(info.transaction, Deposit)
    assert info.transaction.body.is_system and info.transaction.body.gas == 150_000_000
    assert info.result.succeeded and info.result.gas_used == 0
    assert user.result.gas_used == 100_000 and block.header.gas_used == 100_000
    assert user.extra == {}


@pytest.mark.parametrize(("newest", "size"), [("regolith", 4), ("canyon", 6), ("jovian", 6)])
def test_deposit_receipts_have_nonce_and_version_from_canyon_on(newest: str, size: int) -> None:
    l2 = L2TestChain(newest)
    backend = l2.backend()
    l2.extend(backend)
    entry = l2.extend(backend).executed[0]
    tail = b"\x01\x01" if size == 6 else b""
    assert entry.receipt.endswith(tail) and entry.receipt[0] == 0x7E
    assert decode_receipt(entry.receipt).succeeded


# --- invalid blocks ------------------------------------------------------------------------------------------------


def test_invalid_blocks_have_an_error() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    head = backend.chain.head.header
    poor = L2TestChain()
    poor.keys[0] = type(poor.keys[0])(b"\x77" * 32)
    cases = {
        "transaction 1: nonce too high": (l2.transfer(0, 1),),
        "transaction 1: insufficient funds": (poor.transfer(0, 0),),
        "transaction 1: intrinsic gas too low": (l2.transfer(0, 0, gas=20_999),),
        "transaction 2: nonce too low": (l2.transfer(0, 0), l2.transfer(0, 0)),
        "transaction 1: unknown transaction type": (b"\x05\xc0",),
        "transaction 1: malformed": (b"\x02\xc0",),
    }
    for reason, transactions in cases.items():
        with pytest.raises(InvalidBlock, match=reason):
            backend.begin(backend.chain.head, l2.attributes(head, *transactions))
    with pytest.raises(InvalidBlock, match="timestamp"):
        backend.begin(backend.chain.head, l2.attributes(head, seconds=0))
    with pytest.raises(InvalidBlock, match="elasticity"):
        backend.begin(backend.chain.head, l2.attributes(head, eip1559_params=bytes.fromhex("0000000100000000")))
    assert backend.begin(backend.chain.head, l2.attributes(head, l2.transfer(0, 0))).seal().header.gas_used > 0
