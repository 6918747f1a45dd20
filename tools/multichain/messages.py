"""Messages between the chains of a local network: logs, and logs that execute them [MS1 to MS4]."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.interop_messages import EXECUTING_MESSAGE
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import CROSS_L2_INBOX
from rollup_node.tools.batcher.driver import Key, dynamic_fee_transaction
from rollup_node.tools.devnet.traffic import FEES

LOGGER = bytes.fromhex("4200000000000000000000000000000000000099")
LOGGER_CODE = "0x604036038060405f376020355f35825fa200"
"""Emits its calldata as one log: two words of topics, then the data. It stands at CrossL2Inbox's address as well."""
GAS = 120_000
RECEIPT_SECONDS = 20.0
INITIATOR_KEY = Key(keccak256(b"initiator of messages"))
EXECUTOR_KEY = Key(keccak256(b"executor of messages"))
WRONG = ("log index", "timestamp", "payload")
"""What is wrong with an invalid message."""


def execution_call(source: int, log: Mapping[str, Any], timestamp: int, wrong: str = "") -> bytes:
    """Calldata with which the logger executes a log of the chain `source`, but for what is `wrong` [MS4].

    `timestamp` is that of the log's block in seconds."""
    payload = b"".join(map(from_hex, log["topics"])) + from_hex(log["data"])
    fields = (
        int(log["address"], 16),
        int(log["blockNumber"], 16),
        int(log["logIndex"], 16) + 7 * (wrong == "log index"),
        timestamp + 7 * (wrong == "timestamp"),
        source,
    )
    hashed = bytes(32) if wrong == "payload" else keccak256(payload)
    return EXECUTING_MESSAGE + hashed + b"".join(field.to_bytes(32, "big") for field in fields)


class Messages:
    """Sends a message from one chain to another at a time; each `invalid_every`th is invalid, 0 for none."""

    def __init__(
        self, engines: Mapping[int, JsonRpcClient], invalid_every: int, seed: int, on_error: Callable[[str], None]
    ) -> None:
        self._engines, self._invalid_every, self._on_error = engines, invalid_every, on_error
        self._random = random.Random(seed)
        self.sent: Counter[str] = Counter()

    async def send_round(self) -> None:
        """Send one message and execute it. What an endpoint refuses is told and given up."""
        source, target = self._random.sample(list(self._engines), 2)
        number = self.sent.total() + 1
        is_invalid = bool(self._invalid_every) and number % self._invalid_every == 0
        try:
            data = number.to_bytes(32, "big")
            topics = keccak256(b"a message"), keccak256(data)
            receipt = await self._transact(source, INITIATOR_KEY, LOGGER, b"".join(topics) + data)
            log = receipt["logs"][0]
            block = await self._engines[source].call("eth_getBlockByNumber", receipt["blockNumber"], False)
            wrong = self._random.choice(WRONG) if is_invalid else ""
            call = execution_call(source, log, int(block["timestamp"], 16), wrong)
            await self._transact(target, EXECUTOR_KEY, CROSS_L2_INBOX, call)
            self.sent["invalid" if wrong else "valid"] += 1
        except (EndpointError, RpcFailure, TimeoutError, KeyError, IndexError, TypeError) as error:
            self._on_error(f"messages: {error!r}")

    async def _transact(self, chain_id: int, key: Key, to: bytes, data: bytes) -> Any:
        """Send a transaction and return its receipt. Raises TimeoutError where it is in no block."""
        engine = self._engines[chain_id]
        nonce = int(await engine.call("eth_getTransactionCount", to_hex(key.address), "pending"), 16)
        raw = dynamic_fee_transaction(key, chain_id, nonce, to, 0, data, GAS, FEES)
        hashed = await engine.call("eth_sendRawTransaction", to_hex(raw))
        async with asyncio.timeout(RECEIPT_SECONDS):
            while (receipt := await engine.call("eth_getTransactionReceipt", hashed)) is None:
                await asyncio.sleep(0.2)
        return receipt
