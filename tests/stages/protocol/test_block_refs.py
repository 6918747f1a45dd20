"""L2 blocks: references, payloads, JSON-RPC blocks [ATT44, ATT45, HSH17]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol import block_refs
from rollup_node.stages.protocol.block_refs import BlockError
from rollup_node.stages.protocol.config import Genesis, SystemConfig
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_deposit
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash, payload_header
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L2BlockRef
from rollup_node.tools.devnet.chain.blocks import bare_transaction_json, header_json
from rollup_node.tools.devnet.evm.transactions import read_transaction
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.chains.sample_payload import SAMPLE_PAYLOAD

CONFIG = msgspec.structs.replace(
    PLAIN_ROLLUP,
    genesis=Genesis(
        BlockId(1, b"\x01" * 32),
        BlockId(40, b"\x02" * 32),
        1000,
        SystemConfig(b"\x03" * 20, ZERO_HASH, ZERO_HASH, 30_000_000),
    ),
    fork_times={name: 0 for name in FORK_NAMES[: FORK_NAMES.index("granite") + 1]},
)
INFO = L1Info(5, 6, 7, b"\x08" * 32, 9, b"\x0a" * 20, base_fee_scalar=3, blob_base_fee_scalar=4, blob_base_fee=1)
FIRST = l1_info_deposit(INFO, L1InfoFormat.ECOTONE, is_system=False)
DRAFT = msgspec.structs.replace(
    SAMPLE_PAYLOAD,
    block_number=41,
    timestamp=1002,
    transactions=(FIRST,),
    withdrawals=True,
    blob_gas_used=0,
    excess_blob_gas=0,
    parent_beacon_root=b"\x16" * 32,
)
PAYLOAD = msgspec.structs.replace(DRAFT, block_hash=payload_block_hash(DRAFT))


def changed(**changes: Any) -> ExecutionPayload:
    return msgspec.structs.replace(PAYLOAD, **changes)


def sealed(**changes: Any) -> ExecutionPayload:
    draft = changed(**changes)
    return msgspec.structs.replace(draft, block_hash=payload_block_hash(draft))


def block_json(payload: ExecutionPayload = PAYLOAD) -> dict[str, Any]:
    result = header_json(payload_header(payload))
    return result | {
        "hash": "0x" + payload.block_hash.hex(),
        "transactions": [bare_transaction_json(read_transaction(FIRST, 10))],
        "withdrawals": [],
    }


BEFORE_ECOTONE: dict[str, Any] = {"blob_gas_used": None, "excess_blob_gas": None, "parent_beacon_root": None}
REF = L2BlockRef(PAYLOAD.block_hash, 41, DRAFT.parent_hash, 1002, BlockId(5, b"\x08" * 32), 9)


def test_references_of_payloads_and_of_json() -> None:
    assert block_refs.l2_ref_of_payload(CONFIG, PAYLOAD) == block_refs.l2_ref_from_json(CONFIG, block_json()) == REF
    genesis = changed(block_number=40, block_hash=b"\x02" * 32, transactions=())
    assert block_refs.l2_ref_of_payload(CONFIG, genesis) == L2BlockRef(
        b"\x02" * 32, 40, DRAFT.parent_hash, 1002, CONFIG.genesis.l1, 0
    )


def test_another_genesis_block_is_refused() -> None:
    with pytest.raises(BlockError, match="expected L2 genesis hash"):
        block_refs.l2_ref_of_payload(CONFIG, changed(block_number=40))
    with pytest.raises(BlockError, match="expected L2 genesis hash"):
        block_refs.l2_ref_from_json(CONFIG, block_json() | {"number": "0x28"})


@pytest.mark.parametrize(
    "changes",
    [
        BEFORE_ECOTONE | {"withdrawals": False},
        BEFORE_ECOTONE,
        {},
        {"withdrawals_root": b"\x17" * 32},
        {"withdrawals_root": EMPTY_ROOT},
    ],
    ids=["bedrock", "canyon", "ecotone", "isthmus", "isthmus without withdrawals"],
)
def test_payloads_from_json(changes: dict[str, Any]) -> None:
    payload = sealed(**changes)
    assert block_refs.payload_from_block_json(block_json(payload)) == payload


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"gasUsed": "0x1"}, "does not have the hash"),
        ({"hash": "0x" + "00" * 32}, "does not have the hash"),
        ({"transactions": []}, "does not have the hash"),
        ({"transactions": None}, "transactions are not a list"),
        ({"transactions": ["0x" + "00" * 32]}, "block 41: malformed transaction"),
        ({"withdrawals": [{}]}, "no withdrawals"),
        ({"hash": None}, "malformed block: hash: "),
        ({"stateRoot": "0x00"}, "malformed block: stateRoot"),
    ],
)
def test_invalid_json_blocks(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(BlockError) as raised:
        block_refs.payload_from_block_json(block_json() | changes)
    assert text in str(raised.value)


def test_without_verify_the_hash_is_not_checked() -> None:
    result = block_refs.payload_from_block_json(block_json() | {"gasUsed": "0x1"}, verify=False)
    assert (result.gas_used, result.block_hash) == (1, PAYLOAD.block_hash)


@pytest.mark.parametrize(
    "transactions",
    [None, [], ["0x" + "00" * 32], [{"type": "0x2"}], [{"type": "0x7e"}], [{"type": "0x7e", "input": "0x"}]],
)
def test_json_without_l1_info_has_no_reference(transactions: Any) -> None:
    with pytest.raises(BlockError):
        block_refs.l2_ref_from_json(CONFIG, block_json() | {"transactions": transactions})


@pytest.mark.parametrize("block", [None, [], "0x", 7])
def test_other_values_than_blocks(block: Any) -> None:
    for read in (block_refs.payload_from_block_json, lambda value: block_refs.l2_ref_from_json(CONFIG, value)):
        with pytest.raises(BlockError, match="expected a block object"):
            read(block)
