"""Valid blocks, payloads and configurations to mutate, which agree with their own hashes and roots."""

from functools import cache
from typing import Any, NamedTuple

import msgspec
import orjson

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.table import TIMED_FORKS
from rollup_node.stages.protocol.headers import HEADER_FIELDS, Header, WithdrawalJson, header_hash, withdrawals_root
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_deposit
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.receipts import bloom_mask, receipt_from_json
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.transaction_json import transaction_from_json
from rollup_node.stages.protocol.types import BlockId

L1_CHAIN, L2_CHAIN, GENESIS_TIME, NUMBER = 900, 901, 1_700_000_000, 100
INBOX, DEPOSITS, SYSTEM_CONFIG = b"\xff" * 20, b"\xde" * 20, b"\x5c" * 20
L1_FILTER = L1Filter(L1_CHAIN, INBOX, DEPOSITS, SYSTEM_CONFIG, b"\xda" * 20, True)
L1_TOPIC = keccak256(b"another event")
WITHDRAWAL = {"index": "0x1", "validatorIndex": "0x2", "address": to_hex(b"\x07" * 20), "amount": "0x5"}
LEGACY_TO_INBOX = {
    **{"type": "0x0", "nonce": "0x3", "gasPrice": "0x3b9aca00", "gas": "0x5208", "to": to_hex(INBOX), "value": "0x0"},
    **{"input": to_hex(b"\0" * 24), "v": hex(2 * L1_CHAIN + 35), "r": "0x" + "11" * 32, "s": "0x" + "12" * 32},
}
SET_CODE = {
    **{"type": "0x4", "chainId": hex(L1_CHAIN), "nonce": "0x1", "maxPriorityFeePerGas": "0x1", "maxFeePerGas": "0x9"},
    **{"gas": "0xffff", "to": to_hex(b"\x02" * 20), "value": "0x7", "input": "0x0102", "yParity": "0x1"},
    **{"r": "0x" + "21" * 32, "s": "0x22", "accessList": [{"address": to_hex(b"\x03" * 20), "storageKeys": []}]},
    "authorizationList": [
        {
            **{"chainId": "0x1", "address": to_hex(b"\x04" * 20), "nonce": "0x0", "yParity": "0x0"},
            **{"r": "0x5", "s": "0x6"},
        }
    ],
}

SLOT_NODE = rlp.encode([b"\x20" + keccak256(bytes(32)), rlp.encode(b"\x05")])
"""The only node of a storage trie in which slot 0 is 5."""
ACCOUNT_NODE = rlp.encode(
    [b"\x20" + keccak256(bytes(20)), rlp.encode([b"\x01", b"", keccak256(SLOT_NODE), keccak256(b"")])]
)
"""The only node of a state in which the zero address has that storage."""
STATE_ROOT = keccak256(ACCOUNT_NODE)


class L1Seed(NamedTuple):
    """An L1 block and its receipts as JSON-RPC gives them."""

    block: dict[str, Any]
    receipts: list[dict[str, Any]]


@cache
def rollup() -> RollupConfig:
    """Return a chain with all forks at genesis."""
    return RollupConfig(
        genesis=Genesis(
            BlockId(0, b"\x22" * 32),
            BlockId(0, b"\x33" * 32),
            GENESIS_TIME,
            SystemConfig(b"\x0b" * 20, bytes(32), b"\x01" * 32, 30_000_000),
        ),
        block_time=2,
        max_sequencer_drift=600,
        seq_window_size=3600,
        channel_timeout=300,
        l1_chain_id=L1_CHAIN,
        l2_chain_id=L2_CHAIN,
        fork_times={name: GENESIS_TIME for name in TIMED_FORKS},
        batch_inbox=INBOX,
        deposit_contract=DEPOSITS,
        l1_system_config=SYSTEM_CONFIG,
    )


def payload(version: int = 4, number: int = 1) -> ExecutionPayload:
    """Return an L2 block of a version of the block encoding, with its hash."""
    time = GENESIS_TIME + 2 * number
    info = L1Info(NUMBER, time, 7, b"\x0a" * 32, 0, bytes(20))
    deposit = l1_info_deposit(info, rollup().schedule().l1_info_format(time), is_system=False)
    execution_payload = ExecutionPayload(
        parent_hash=bytes(32),
        fee_recipient=b"\x42" * 20,
        state_root=b"\x01" * 32,
        receipts_root=b"\x02" * 32,
        logs_bloom=bytes(255) + b"\x03",
        prev_randao=b"\x04" * 32,
        block_number=number,
        gas_limit=30_000_000,
        gas_used=21_000,
        timestamp=time,
        extra_data=b"\x01" + bytes(16),
        base_fee=10**9,
        block_hash=bytes(32),
        transactions=(deposit, b"\x02" + bytes(20)),
        withdrawals=version >= 2,
        blob_gas_used=0 if version >= 3 else None,
        excess_blob_gas=0 if version >= 3 else None,
        withdrawals_root=b"\x05" * 32 if version >= 4 else None,
        parent_beacon_root=b"\x06" * 32 if version >= 3 else None,
    )
    return msgspec.structs.replace(execution_payload, block_hash=payload_block_hash(execution_payload))


@cache
def l1_seed() -> L1Seed:
    """Return an L1 block with two transactions.

    Of these, one is to the inbox and one emits an update of the system config."""
    transactions: list[dict[str, Any]] = [LEGACY_TO_INBOX, SET_CODE]
    encoded = [transaction_from_json(transaction) for transaction in transactions]
    logs = [_log(SYSTEM_CONFIG, CONFIG_UPDATE_TOPIC), _log(b"\x09" * 20, L1_TOPIC)]
    bloom = bytes(256)
    for item in (SYSTEM_CONFIG, CONFIG_UPDATE_TOPIC, b"\x09" * 20, L1_TOPIC):
        bloom = _joined(bloom, bloom_mask(item))
    receipts = [
        _receipt(0, 21_000, 21_000, bytes(256), []),
        _receipt(4, 60_000, 39_000, bloom, logs),
    ]
    header = _header(bloom, ordered_root(encoded), ordered_root([receipt_from_json(receipt) for receipt in receipts]))
    block_hash = header_hash(header)
    for index, (transaction, receipt) in enumerate(zip(encoded, receipts, strict=True)):
        place = {
            **{"blockHash": to_hex(block_hash), "blockNumber": hex(NUMBER), "transactionIndex": hex(index)},
            "transactionHash": to_hex(keccak256(transaction)),
        }
        receipt |= place
        for number, log in enumerate(receipt["logs"]):
            log |= {**place, "logIndex": hex(number), "removed": False}
    block = header_json(header) | {"hash": to_hex(block_hash), "withdrawals": [WITHDRAWAL]}
    block["transactions"] = [
        item | {"hash": to_hex(keccak256(raw))} for item, raw in zip(transactions, encoded, strict=True)
    ]
    return L1Seed(block, receipts)


def header_json(header: Header) -> dict[str, Any]:
    """Return a header's fields by their JSON-RPC names, without absent optional ones."""
    values = zip(HEADER_FIELDS, msgspec.structs.astuple(header), strict=True)
    return {
        field.json_name: hex(value) if field.bits else to_hex(value) for field, value in values if value is not None
    }


def answer(result: Any) -> bytes:
    """Return a JSON-RPC response with this result."""
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result})


def _joined(bloom: bytes, mask: int) -> bytes:
    return (int.from_bytes(bloom, "big") | mask).to_bytes(256, "big")


def _header(bloom: bytes, transactions_root: bytes, receipts_root: bytes) -> Header:
    return Header(
        parent_hash=b"\x01" * 32,
        uncles_hash=b"\x02" * 32,
        miner=b"\x03" * 20,
        state_root=b"\x04" * 32,
        transactions_root=transactions_root,
        receipts_root=receipts_root,
        logs_bloom=bloom,
        difficulty=0,
        number=NUMBER,
        gas_limit=30_000_000,
        gas_used=60_000,
        timestamp=GENESIS_TIME,
        extra_data=b"extra",
        mix_hash=b"\x05" * 32,
        nonce=bytes(8),
        base_fee=7,
        withdrawals_root=withdrawals_root([msgspec.convert(WITHDRAWAL, WithdrawalJson)]),
        blob_gas_used=0,
        excess_blob_gas=0,
        parent_beacon_root=b"\x06" * 32,
        requests_hash=b"\x07" * 32,
    )


def _log(address: bytes, topic: bytes) -> dict[str, Any]:
    data = b"".join(item.to_bytes(32, "big") for item in (32, 32, 5))
    topics = [to_hex(topic), to_hex(bytes(32)), to_hex(bytes(32))]
    return {"address": to_hex(address), "topics": topics, "data": to_hex(data)}


def _receipt(kind: int, total: int, used: int, bloom: bytes, logs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **{"type": hex(kind), "status": "0x1", "cumulativeGasUsed": hex(total), "gasUsed": hex(used)},
        **{"logsBloom": to_hex(bloom), "logs": logs},
    }
