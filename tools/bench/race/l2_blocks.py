"""The L2 chain of a course: the attributes that derivation must reach for each block, and the blocks sealed of them."""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import orjson

from rollup_node.stages.protocol.attributes import prepare_attributes, system_config_after, with_transactions
from rollup_node.stages.protocol.block_refs import l2_ref_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC, decode_deposit, is_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, payload_header
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC
from rollup_node.stages.protocol.transactions import DYNAMIC_FEE, Transaction, decode_transaction, encode_transaction
from rollup_node.stages.protocol.types import Address, BlockId, L2BlockRef, Log
from rollup_node.tools.batcher.batches import BatchBlock
from rollup_node.tools.bench.race.l1_blocks import ACCOUNTS, CONTRACTS, MadeL1Block
from rollup_node.tools.bench.signed_blocks import sealed
from rollup_node.tools.devnet.chain.blocks import bare_transaction_json, header_json
from rollup_node.tools.devnet.evm.transactions import AnyTransaction, Deposit, SignedTransaction

Seal = Callable[[BlockId, PayloadAttributes], ExecutionPayload]
"""Gives the block that its parent and attributes make."""

Transactions = Callable[[int, int], tuple[bytes, ...]]
"""Gives so many signed transactions for the block of a number: it is called with number and count."""

SELECTOR = bytes.fromhex("a9059cbb")


class MadeL2Block(NamedTuple):
    """A block with the attributes that it is made of, and what its batch carries."""

    ref: L2BlockRef
    attributes: PayloadAttributes
    payload: ExecutionPayload
    batch: BatchBlock


class L2Chain:
    """Builds a chain block by block; all of its blocks become safe.

    Where an engine executes it, `seal` and `sign` take the place of prepared blocks and of transactions of nobody."""

    def __init__(
        self,
        config: RollupConfig,
        genesis: ExecutionPayload,
        seal: Seal | None = None,
        sign: Transactions | None = None,
    ) -> None:
        self._config = config
        self._seal = seal or (lambda parent, attributes: sealed(config, parent, attributes, ()))
        self._sign = sign or (lambda number, count: signed_transactions(number, config.l2_chain_id, count))
        self._system = config.genesis.system_config
        self.head = l2_ref_of_payload(config, genesis)

    @property
    def next_time(self) -> int:
        """The time of the next block in seconds."""
        return self.head.timestamp + self._config.block_time

    def extend(self, origin: MadeL1Block, transactions: int) -> MadeL2Block:
        """Return the next block, with an L1 origin and that many signed transactions."""
        signed = self._sign(self.head.number + 1, transactions)
        prepared = prepare_attributes(
            self._config,
            L1_CHAINS[self._config.l1_chain_id],
            self.head,
            self._system,
            origin.header,
            wanted_logs(origin.logs, self._config.deposit_contract, DEPOSIT_TOPIC),
            wanted_logs(origin.logs, self._config.l1_system_config, CONFIG_UPDATE_TOPIC),
        )
        attributes = with_transactions(prepared.attributes, signed)
        payload = self._seal(self.head.id, attributes)
        batch = BatchBlock(self.head.hash, payload.timestamp, BlockId(origin.header.number, origin.header.hash), signed)
        self._system = system_config_after(self._config, attributes, payload.block_number)
        self.head = l2_ref_of_payload(self._config, payload)
        return MadeL2Block(self.head, attributes, payload, batch)


def wanted_logs(logs: Sequence[Log], address: Address, topic: bytes) -> list[Log]:
    """Return the logs of an event of a contract."""
    return [log for log in logs if log.topics[0] == topic and log.address == address]


def signed_transactions(number: int, chain_id: int, count: int) -> tuple[bytes, ...]:
    """Token transfers, as large in a compressed channel as those of a real chain."""
    random = Random(f"L2 block {number}")
    return tuple(
        encode_transaction(
            Transaction(
                kind=DYNAMIC_FEE,
                chain_id=chain_id,
                nonce=random.randrange(3000),
                max_priority_fee=10**6,
                max_fee=random.choice((10**6, 10**7, 10**8)) + 252,
                gas=random.choice((60_000, 100_000, 150_000, 250_000)),
                to=random.choice(CONTRACTS),
                value=0,
                data=SELECTOR + random.choice(ACCOUNTS).rjust(32, b"\0") + random.getrandbits(72).to_bytes(32, "big"),
                y_parity=index & 1,
                r=random.getrandbits(255) | 1,
                s=random.getrandbits(254) | 1,
            )
        )
        for index in range(count)
    )


def block_json(payload: ExecutionPayload) -> bytes:
    """Return the block with full transactions as a result of JSON-RPC."""
    block_hash = to_hex(payload.block_hash)
    place = {"blockHash": block_hash, "blockNumber": hex(payload.block_number)}
    result = {**header_json(payload_header(payload)), "hash": block_hash, "size": hex(10_000), "uncles": []}
    if payload.withdrawals:
        result["withdrawals"] = []
    result["transactions"] = [
        {**bare_transaction_json(_readable(raw)), **place, "transactionIndex": hex(index)}
        for index, raw in enumerate(payload.transactions)
    ]
    return orjson.dumps(result)


def _readable(raw: bytes) -> AnyTransaction:
    """Return the decoded transaction.

    Nobody recovers the senders of a course, so one account stands for all of them."""
    if is_deposit(raw):
        deposit = decode_deposit(raw)
        return Deposit(raw, keccak256(raw), deposit.sender, deposit)
    return SignedTransaction(raw, keccak256(raw), ACCOUNTS[0], decode_transaction(raw))
