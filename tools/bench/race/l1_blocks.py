"""L1 blocks that look like mainnet's and agree with their own roots, blooms and hashes, as results of JSON-RPC."""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec
import orjson

from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC
from rollup_node.stages.protocol.headers import (
    EMPTY_REQUESTS_HASH,
    EMPTY_UNCLES_HASH,
    ZERO_NONCE,
    Header,
    WithdrawalJson,
    header_hash,
    l1_header,
    withdrawals_root,
)
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import bloom_mask, receipt_from_json
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.transactions import (
    BLOB,
    DYNAMIC_FEE,
    LEGACY,
    Transaction,
    encode_transaction,
    signing_hash,
)
from rollup_node.stages.protocol.types import Address, Hash, L1Header, Log
from rollup_node.tools.batcher.batches import BatchBlock, span_batch
from rollup_node.tools.batcher.channels import (
    MAX_BLOB_DATA,
    Compression,
    batcher_data,
    channel_body,
    encode_blob,
    frames,
)
from rollup_node.tools.batcher.driver import Key
from rollup_node.tools.batcher.kzg_proofs import compute_proof
from rollup_node.tools.bench.synthetic_chain import L1_BLOCK_TIME
from rollup_node.tools.devnet.chain.blocks import bare_transaction_json, header_json
from rollup_node.tools.devnet.evm.transactions import SignedTransaction
from rollup_node.tools.devnet.l1.beacon import Blob

GAS_LIMIT, BASE_FEE, EXCESS_BLOB_GAS = 45_000_000, 1_000_000_000, 20_000_000
GAS_PER_TRANSACTION = 150_000
"""Of the gas limit, where it is above that one: 60 Mgas for 400 transactions, 195 for 1,300."""
GAS_PER_BLOB = 131_072
WITHDRAWALS = 16
LOGS_OF_TRANSACTIONS = (0, 1, 2, 3, 5, 4)
"""How many logs the transactions of a block have in turn: 2.5 on average."""

CALL_DATA_BYTES = (0, 68, 68, 0, 260, 68, 68, 0, 900, 260)


class EmittedLog(NamedTuple):
    """A log without its place in a block."""

    address: Address
    topics: tuple[Hash, ...]
    data: bytes


class Included(NamedTuple):
    """A transaction of a block with its sender and the logs that it emits."""

    transaction: Transaction
    sender: Address
    logs: tuple[EmittedLog, ...] = ()


class MadeL1Block(NamedTuple):
    """A block: what derivation reads of it, and its JSON in both forms with its receipts.

    The forms have full transactions, or their hashes alone. `logs` are all logs of the block."""

    header: L1Header
    logs: tuple[Log, ...]
    full: bytes
    hashes: bytes
    receipts: bytes


def _pool(name: str, count: float, size: int) -> list[bytes]:
    return [keccak256(f"{name} {number}".encode())[-size:] for number in range(round(count))]


class Pools(NamedTuple):
    """What the transactions and logs of a block choose from."""

    contracts: list[Address]
    events: list[Hash]
    accounts: list[Address]


@cache
def _pools(transactions: int) -> Pools:
    """Return what so many transactions choose from.

    The logs of 150 name about 350 of them, which leaves 60 % of the bloom empty; of 400, 20 %; of 1,300, 1 %."""
    scale = max(1.0, transactions / 150)
    return Pools(_pool("contract", 60 * scale, 20), _pool("event", 12 * scale, 32), _pool("account", 400 * scale, 20))


CONTRACTS, _, ACCOUNTS = _pools(1)

_mask = cache(bloom_mask)


def make_l1_block(
    parent: L1Header | None, number: int, timestamp: int, state_root: Hash, size: int, special: Sequence[Included]
) -> MadeL1Block:
    """Return the block of `size` transactions after `parent`: the special ones spread among ordinary ones.

    The same arguments give the same block. `timestamp` in seconds."""
    random = Random(f"L1 block {number}")
    included = _spread(list(special), _ordinary(random, number, size - len(special)))
    signed = [_signed(item) for item in included]
    receipts, bloom, gas = _receipts(signed, included)
    withdrawals = _withdrawals(number)
    blobs = sum(len(item.transaction.blob_hashes) for item in included)
    header = Header(
        parent_hash=bytes(32) if parent is None else parent.hash,
        uncles_hash=EMPTY_UNCLES_HASH,
        miner=ACCOUNTS[number % len(ACCOUNTS)],
        state_root=state_root,
        transactions_root=ordered_root([item.raw for item in signed]),
        receipts_root=ordered_root([receipt_from_json(receipt) for receipt in receipts]),
        logs_bloom=bloom.to_bytes(256, "big"),
        difficulty=0,
        number=number,
        gas_limit=max(GAS_LIMIT, size * GAS_PER_TRANSACTION),
        gas_used=gas,
        timestamp=timestamp,
        extra_data=b"course",
        mix_hash=random.randbytes(32),
        nonce=ZERO_NONCE,
        base_fee=BASE_FEE + number % 1000,
        withdrawals_root=withdrawals_root(msgspec.convert(withdrawals, list[WithdrawalJson])),
        blob_gas_used=blobs * GAS_PER_BLOB,
        excess_blob_gas=EXCESS_BLOB_GAS,
        parent_beacon_root=random.randbytes(32),
        requests_hash=EMPTY_REQUESTS_HASH,
    )
    return _made(header, signed, included, receipts, withdrawals)


def _spread(special: list[Included], ordinary: Iterator[Included]) -> list[Included]:
    """Each special transaction after three ordinary ones, if there are as many."""
    mixed: list[Included] = []
    for index, item in enumerate(ordinary):
        if special and index % 4 == 3:
            mixed.append(special.pop(0))
        mixed.append(item)
    return mixed + special


def _ordinary(random: Random, number: int, count: int) -> Iterator[Included]:
    contracts, _, accounts = pools = _pools(count)
    for index in range(count):
        data = random.randbytes(CALL_DATA_BYTES[index % len(CALL_DATA_BYTES)])
        kind = LEGACY if index % 7 == 0 else DYNAMIC_FEE
        transaction = Transaction(
            kind=kind,
            chain_id=1,
            nonce=number % 10_000,
            max_priority_fee=BASE_FEE * 2 if kind == LEGACY else 10**8,
            max_fee=BASE_FEE * 2,
            gas=200_000,
            to=random.choice(contracts) if data else random.choice(accounts),
            value=0 if data else random.getrandbits(60),
            data=data,
            y_parity=index & 1,
            r=random.getrandbits(255) | 1,
            s=random.getrandbits(254) | 1,
        )
        logs = (_log(random, pools) for _ in range(LOGS_OF_TRANSACTIONS[index % len(LOGS_OF_TRANSACTIONS)]))
        yield Included(transaction, random.choice(accounts), tuple(logs))


def _log(random: Random, pools: Pools) -> EmittedLog:
    """Return a log as of a token transfer or a swap."""
    indexed = tuple(random.choice(pools.accounts).rjust(32, b"\0") for _ in range(random.choice((1, 2, 2, 2))))
    data = random.getrandbits(80).to_bytes(32, "big") * random.choice((1, 1, 1, 4))
    return EmittedLog(random.choice(pools.contracts), (random.choice(pools.events), *indexed), data)


def _signed(included: Included) -> SignedTransaction:
    raw = encode_transaction(included.transaction)
    return SignedTransaction(raw, keccak256(raw), included.sender, included.transaction)


def _receipts(
    signed: Sequence[SignedTransaction], included: Sequence[Included]
) -> tuple[list[dict[str, Any]], int, int]:
    """Return the receipts without what names their block, the block's bloom as a number, and the gas that it used."""
    receipts: list[dict[str, Any]] = []
    whole = cumulative = log_index = 0
    for index, (transaction, item) in enumerate(zip(signed, included, strict=True)):
        bloom = 0
        place = {"transactionHash": to_hex(transaction.hash), "transactionIndex": hex(index)}
        logs: list[dict[str, Any]] = []
        for log in item.logs:
            for value in (log.address, *log.topics):
                bloom |= _mask(value)
            topics = [to_hex(topic) for topic in log.topics]
            result = {"address": to_hex(log.address), "topics": topics, "data": to_hex(log.data), **place}
            logs.append({**result, "logIndex": hex(log_index), "removed": False})
            log_index += 1
        gas = 21_000 + 30_000 * len(item.logs) + 16 * len(item.transaction.data)
        cumulative += gas
        whole |= bloom
        receipt: dict[str, Any] = {
            **place,
            "type": hex(transaction.kind),
            "from": to_hex(transaction.sender),
            "to": to_hex(item.transaction.to or b""),
            "status": "0x1",
            "gasUsed": hex(gas),
            "cumulativeGasUsed": hex(cumulative),
            "effectiveGasPrice": hex(BASE_FEE),
            "contractAddress": None,
            "logsBloom": to_hex(bloom.to_bytes(256, "big")),
            "logs": logs,
        }
        if item.transaction.blob_hashes:
            receipt |= {"blobGasUsed": hex(len(item.transaction.blob_hashes) * GAS_PER_BLOB), "blobGasPrice": "0x1"}
        receipts.append(receipt)
    return receipts, whole, cumulative


def _withdrawals(number: int) -> list[dict[str, str]]:
    return [
        {
            "index": hex(number * WITHDRAWALS + index),
            "validatorIndex": hex(number % 1000 * WITHDRAWALS + index),
            "address": to_hex(ACCOUNTS[(number + index) % len(ACCOUNTS)]),
            "amount": hex(18_000_000 + index),
        }
        for index in range(WITHDRAWALS)
    ]


def _made(
    header: Header,
    signed: Sequence[SignedTransaction],
    included: Sequence[Included],
    receipts: Sequence[dict[str, Any]],
    withdrawals: list[dict[str, str]],
) -> MadeL1Block:
    block_hash = header_hash(header)
    place = {"blockHash": to_hex(block_hash), "blockNumber": hex(header.number)}
    transactions = [
        {**bare_transaction_json(item), **place, "transactionIndex": hex(index)} for index, item in enumerate(signed)
    ]
    block = {**header_json(header), "hash": to_hex(block_hash), "size": hex(100_000), "uncles": []}
    block["withdrawals"] = withdrawals
    for receipt in receipts:
        receipt |= place
        for log in receipt["logs"]:
            log |= {**place, "blockTimestamp": hex(header.timestamp)}
    emitted = [log for item in included for log in item.logs]
    return MadeL1Block(
        header=l1_header(header, block_hash),
        logs=tuple(Log(*log, index) for index, log in enumerate(emitted)),
        full=orjson.dumps({**block, "transactions": transactions}),
        hashes=orjson.dumps({**block, "transactions": [to_hex(item.hash) for item in signed]}),
        receipts=orjson.dumps(receipts),
    )


def next_time(header: L1Header) -> int:
    """Return the time of the next block in seconds."""
    return header.timestamp + L1_BLOCK_TIME


BATCHER, OTHER_BATCHER = Key(b"\x42" * 32), Key(b"\x33" * 32)
BLOBS_PER_TRANSACTION = 5
_GAS_LIMIT_UPDATE = 2


def deposit(config: RollupConfig, number: int) -> Included:
    """Return a call of the portal that deposits some ether with a message."""
    sender, data = ACCOUNTS[number % len(ACCOUNTS)], number.to_bytes(100, "big")
    value = _word(10**15 + number)
    opaque = value + value + (100_000).to_bytes(8, "big") + b"\0" + data
    padded = opaque.ljust(-(-len(opaque) // 32) * 32, b"\0")
    topics = (DEPOSIT_TOPIC, sender.rjust(32, b"\0"), ACCOUNTS[-1].rjust(32, b"\0"), bytes(32))
    log = EmittedLog(config.deposit_contract, topics, _word(32) + _word(len(opaque)) + padded)
    return Included(_call(config.deposit_contract, number, data), sender, (log,))


def gas_limit_change(config: RollupConfig, gas_limit: int) -> Included:
    """Return a call of the SystemConfig that sets the L2 gas limit."""
    topics = (CONFIG_UPDATE_TOPIC, bytes(32), _word(_GAS_LIMIT_UPDATE))
    log = EmittedLog(config.l1_system_config, topics, _word(32) + _word(32) + _word(gas_limit))
    return Included(_call(config.l1_system_config, 0, b"\xb4\x0a\x81\x7c" + _word(gas_limit)), ACCOUNTS[0], (log,))


def span_batches(
    blocks: Sequence[BatchBlock], genesis_time: int, parent_origin_number: int, blocks_per_span: int
) -> list[bytes]:
    """Consecutive L2 blocks as span batches.

    `parent_origin_number` is the L1 origin number of the block before the first; `genesis_time` of L2 in seconds."""
    spans: list[bytes] = []
    for first in range(0, len(blocks), blocks_per_span):
        span = blocks[first : first + blocks_per_span]
        spans.append(span_batch(span, genesis_time, parent_origin_number))
        parent_origin_number = span[-1].epoch.number
    return spans


def blobs_of_channel(channel_id: bytes, spans: Sequence[bytes], proofs: bool = True) -> list[Blob]:
    """Return the blobs of one brotli channel of these batches, a frame each; without `proofs` theirs are empty."""
    body = channel_body(spans, Compression.BROTLI)
    pieces = frames(channel_id, body, MAX_BLOB_DATA - 1)
    return [_blob(batcher_data([piece]), proofs) for piece in pieces]


def _blob(data: bytes, proof: bool) -> Blob:
    content = encode_blob(data)
    commitment = blob_to_commitment(content)
    return Blob(content, commitment, compute_proof(content, commitment) if proof else b"")


@cache
def other_blobs(count: int, proofs: bool) -> list[Blob]:
    """Return blobs of another chain's batcher, always the same ones."""
    random = Random("other blobs")
    return [_blob(random.randbytes(MAX_BLOB_DATA - 1), proofs) for _ in range(count)]


def blob_transactions(key: Key, inbox: Address, nonce: int, blobs: Sequence[Blob]) -> list[Included]:
    """Signed transactions of a batcher to its inbox that carry the blobs in their order."""
    hashes = [versioned_hash(blob.commitment) for blob in blobs]
    return [
        _blob_transaction(
            key, inbox, nonce + first // BLOBS_PER_TRANSACTION, hashes[first : first + BLOBS_PER_TRANSACTION]
        )
        for first in range(0, len(hashes), BLOBS_PER_TRANSACTION)
    ]


def _blob_transaction(key: Key, inbox: Address, nonce: int, hashes: Sequence[bytes]) -> Included:
    unsigned = Transaction(
        BLOB,
        1,
        nonce,
        10**8,
        BASE_FEE * 2,
        21_000,
        inbox,
        0,
        b"",
        0,
        0,
        0,
        max_blob_fee=10**9,
        blob_hashes=tuple(hashes),
    )
    y_parity, r, s = key.sign(signing_hash(unsigned))
    return Included(msgspec.structs.replace(unsigned, y_parity=y_parity, r=r, s=s), key.address)


def _call(to: Address, nonce: int, data: bytes) -> Transaction:
    return Transaction(DYNAMIC_FEE, 1, nonce, 10**8, BASE_FEE * 2, 300_000, to, 0, data, 0, 1 + nonce, 1)


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")
