"""The block chain in memory: heads, branches, labels, locations of transactions, ancestors."""

import msgspec
import pytest

from rollup_node.stages.protocol.deposits import decode_deposit, encode_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transaction_json import transaction_from_json
from rollup_node.stages.protocol.transactions import encode_transaction, signing_hash
from rollup_node.tools.batcher.signing import Key
from rollup_node.tools.devnet.chain.blocks import (
    Block,
    bare_transaction_json,
    block_json,
    header_json,
    logs_json,
    receipt_json,
    transaction_json,
)
from rollup_node.tools.devnet.engine.backend import L2Backend
from rollup_node.tools.devnet.evm.transactions import read_signed, read_transaction
from rollup_node.tools.devnet.predeploys.alloc import TOKEN
from tests.support.chains.l2_test_chain import CHAIN_ID, L2TestChain
from tests.support.chains.signed_transactions import unsigned_transaction


def insert(l2: L2TestChain, backend: L2Backend, parent: Block, *transactions: bytes) -> Block:
    """Inserts a block on a parent without following it."""
    block: Block = backend.begin(parent, l2.attributes(parent.header, *transactions)).seal()
    backend.chain.insert(block)
    return block


def test_set_head_switches_between_branches() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    chain = backend.chain
    genesis = chain.genesis
    one = insert(l2, backend, genesis, l2.transfer(0, 0))
    two = insert(l2, backend, one)
    other = insert(l2, backend, genesis, l2.transfer(1, 0))
    assert chain.set_head(two).added == (one, two)
    chain.safe, chain.finalized = two, one
    moved, kept = one.transactions[1].hash, other.transactions[1].hash
    location = chain.locate(moved)
    assert location is not None and (location.block, location.position) == (one, 1)
    change = chain.set_head(other)
    assert change.removed == (one, two) and change.added == (other,)
    assert chain.head == other and chain.safe == chain.finalized == genesis
    assert chain.locate(moved) is None and chain.locate(kept) is not None
    assert chain.at(1) == other and chain.at(2) is None and chain.get(two.hash) == two
    assert chain.set_head(genesis).removed == (other,)


def test_ancestors_and_block_hashes_are_on_the_blocks_own_branch() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    chain = backend.chain
    one = insert(l2, backend, chain.genesis, l2.transfer(0, 0))
    two = insert(l2, backend, one)
    side_one = insert(l2, backend, chain.genesis, l2.transfer(1, 0))
    side_two = insert(l2, backend, side_one)
    chain.set_head(two)
    assert chain.ancestor(two, 1) == one and chain.ancestor(side_two, 1) == side_one
    assert chain.ancestor(side_two, 0) == chain.genesis
    assert [chain.hashes_before(side_two)(number) for number in range(3)] == [
        chain.genesis.hash,
        side_one.hash,
        side_two.hash,
    ]


KEY = Key(b"\x31" * 32)


@pytest.mark.parametrize("kind", range(5))
def test_signed_transactions_of_all_types_parse_back(kind: int) -> None:
    unsigned = unsigned_transaction(kind, CHAIN_ID)
    parity, r, s = KEY.sign(signing_hash(unsigned))
    raw = encode_transaction(msgspec.structs.replace(unsigned, y_parity=parity, r=r, s=s))
    found = bare_transaction_json(read_signed(raw, CHAIN_ID))
    assert transaction_from_json(found) == raw
    assert (found["from"], found["type"], found["blockHash"]) == (to_hex(KEY.address), hex(kind), None)


def test_a_deposit() -> None:
    raw = L2TestChain().deposit(b"\xee" * 20, None, mint=7, data=b"\x60")
    found = bare_transaction_json(read_transaction(raw, CHAIN_ID))
    assert transaction_from_json(found) == raw
    assert (found["mint"], found["to"], found["gasPrice"]) == ("0x7", None, "0x0")
    assert "isSystemTx" not in found, "op-alloy's clients read a quantity and end at false"


def test_a_deposit_of_the_system_says_so() -> None:
    """Before Regolith."""
    deposit = decode_deposit(L2TestChain().deposit(b"\xee" * 20, None))
    raw = encode_deposit(msgspec.structs.replace(deposit, is_system=True))
    found = bare_transaction_json(read_transaction(raw, CHAIN_ID))
    assert found["isSystemTx"] is True and transaction_from_json(found) == raw


def test_optional_header_fields_depend_on_the_fork() -> None:
    for newest, name, present in (
        ("regolith", "withdrawalsRoot", False),
        ("canyon", "withdrawalsRoot", True),
        ("canyon", "blobGasUsed", False),
        ("ecotone", "parentBeaconBlockRoot", True),
        ("isthmus", "requestsHash", True),
    ):
        block = L2TestChain(newest).genesis().block
        assert (name in header_json(block.header)) is present, (newest, name)
        assert ("withdrawals" in block_json(block, False)) is (newest != "regolith")


def test_transactions_receipts_and_logs_of_a_block() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    mint = keccak256(b"mint(uint256)")[:4] + (100).to_bytes(32, "big")
    creation = l2.transfer(1, 0, None, 0, b"\x60\x00")
    block = l2.extend(backend, l2.transfer(0, 0, TOKEN, 0, mint), l2.transfer(0, 1, TOKEN, 0, mint), creation)
    full = block_json(block, True)["transactions"]
    assert [entry["hash"] for entry in full] == block_json(block, False)["transactions"]
    assert full[1] == transaction_json(block, 1)
    assert full[0]["depositReceiptVersion"] == "0x1"
    first, second, third = (receipt_json(block, position) for position in (1, 2, 3))
    assert [log["logIndex"] for log in (*first["logs"], *second["logs"])] == ["0x0", "0x1"]
    assert int(second["cumulativeGasUsed"], 16) == int(first["cumulativeGasUsed"], 16) + int(second["gasUsed"], 16)
    assert first["contractAddress"] is None
    assert third["contractAddress"] is not None and third["to"] is None
    assert {"l1Fee", "l1GasPrice"} <= first.keys()
    location = {"transactionHash": first["transactionHash"]}
    assert logs_json(block.executed[1], location)[0]["address"] == to_hex(TOKEN)
