"""Messages between the chains of a local network: logs, and logs that execute them [MS1 to MS4]."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.interop_messages import EXECUTING_MESSAGE
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import CROSS_L2_INBOX
from rollup_node.tools.batcher.driver import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.devnet.traffic import FEES

LOGGER = bytes.fromhex("4200000000000000000000000000000000000099")
LOGGER_CODE = "0x604036038060405f376020355f35825fa200"
"""Emits its calldata as one log: two words of topics, then the data. It stands at CrossL2Inbox's address as well."""
GAS = 120_000
RECEIPT_SECONDS, POLL_SECONDS = 10.0, 0.2
INITIATOR_KEY = Key(keccak256(b"initiator of messages"))
EXECUTOR_KEY = Key(keccak256(b"executor of messages"))
WRONG = ("log index", "timestamp", "payload")
"""What is wrong with an invalid message that names a log as it is not."""
EXPIRED, CYCLE = "expired", "cycle"
KINDS = (*WRONG, EXPIRED, CYCLE)
FIRST = Fees(2 * FEES.tip, FEES.cap)
"""What an executing message pays to come before all other logs of its block."""


class Sent(NamedTuple):
    """A message in a block of the chain that executes it; `wrong` is empty for a valid one."""

    wrong: str
    chain_id: int
    number: int
    block_hash: str


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
    """Sends a message from one chain to another at a time; each `invalid_every`th is invalid, 0 for none.

    What is wrong with those takes turns, among `kinds` unless that is empty. With a `window`, seconds after which a
    message is expired, that is one way; if blocks of all chains come each `block_time` seconds at the same times, a
    cycle is another [EM8, CY3]."""

    def __init__(
        self,
        engines: Mapping[int, JsonRpcClient],
        invalid_every: int,
        seed: int,
        on_error: Callable[[str], None],
        window: int = 0,
        block_time: int = 0,
        kinds: Collection[str] = (),
    ) -> None:
        self._engines, self._invalid_every, self._on_error = engines, invalid_every, on_error
        self._random, self._window, self._block_time = random.Random(seed), window, block_time
        wrongs = (*WRONG, *((EXPIRED,) if window else ()), *((CYCLE,) if block_time else ()))
        self._wrongs = tuple(wrong for wrong in wrongs if not kinds or wrong in kinds)
        self._old: deque[tuple[int, Any, int]] = deque()
        self._count = 0
        self.sent: list[Sent] = []

    async def send_round(self) -> None:
        """Send one message and execute it. What an endpoint refuses is logged and dropped."""
        self._count += 1
        turn, rest = divmod(self._count, self._invalid_every) if self._invalid_every else (0, 1)
        wrong = "" if rest else self._wrongs[turn % len(self._wrongs)]
        source, target = self._random.sample(list(self._engines), 2)
        try:
            if wrong == CYCLE:
                await self._cycle(source, target)
                return
            is_late = wrong == EXPIRED and bool(self._old) and self._old[0][2] + self._window < await self._now()
            source, log, timestamp = self._old[0] if is_late else await self._initiated(source)
            if source == target:
                target = self._random.choice([chain for chain in self._engines if chain != source])
            if wrong == EXPIRED and not is_late:
                wrong = ""
            hashed = await self._send(
                target, EXECUTOR_KEY, CROSS_L2_INBOX, execution_call(source, log, timestamp, wrong)
            )
            self._note(wrong, target, await self._receipt(target, hashed))
        except (EndpointError, RpcFailure, TimeoutError, KeyError, IndexError, TypeError) as error:
            self._on_error(f"messages: {error!r}")

    async def _initiated(self, source: int) -> tuple[int, Any, int]:
        """Emit a log; returns its chain, the log, and the timestamp of its block."""
        hashed = await self._send(source, INITIATOR_KEY, LOGGER, self._call(self._count))
        receipt = await self._receipt(source, hashed)
        block = await self._engines[source].call("eth_getBlockByNumber", receipt["blockNumber"], False)
        initiated = source, receipt["logs"][0], int(block["timestamp"], 16)
        self._old.append(initiated)
        while len(self._old) > 1 and self._old[1][2] + 2 * self._window < initiated[2]:
            self._old.popleft()
        return initiated

    async def _cycle(self, first: int, second: int) -> None:
        """Have two blocks of one second execute a log of each other, which stands behind the message that executes.

        The next blocks are predicted; where a message gets into another one, it is invalid because it names no log."""
        pair = first, second
        heads = before = {chain: await self._head(chain) for chain in pair}
        while heads == before or len({timestamp for _, timestamp in heads.values()}) > 1:
            await asyncio.sleep(POLL_SECONDS / 4)
            heads = {chain: await self._head(chain) for chain in pair}
        calls = {chain: self._call(self._count, chain) for chain in pair}
        executing = {}
        for chain, other in (pair, pair[::-1]):
            log = {
                "address": to_hex(LOGGER),
                "topics": [to_hex(calls[other][:32]), to_hex(calls[other][32:64])],
                "data": to_hex(calls[other][64:]),
                "blockNumber": hex(heads[other][0] + 1),
                "logIndex": "0x1",
            }
            call = execution_call(other, log, heads[other][1] + self._block_time)
            executing[chain] = await self._send(chain, EXECUTOR_KEY, CROSS_L2_INBOX, call, FIRST)
            await self._send(chain, INITIATOR_KEY, LOGGER, calls[chain])
        receipts = {chain: await self._receipt(chain, executing[chain]) for chain in pair}
        is_hit = all(int(receipts[chain]["blockNumber"], 16) == heads[chain][0] + 1 for chain in pair)
        for chain in pair:
            self._note(CYCLE if is_hit else "log index", chain, receipts[chain])

    async def _now(self) -> int:
        """Return the time of all chains, which a machine that is too slow lets fall behind its clock."""
        return min([(await self._head(chain))[1] for chain in self._engines])

    async def _head(self, chain_id: int) -> tuple[int, int]:
        """Return number and timestamp of a chain's last block."""
        block = await self._engines[chain_id].call("eth_getBlockByNumber", "latest", False)
        return int(block["number"], 16), int(block["timestamp"], 16)

    @staticmethod
    def _call(number: int, salt: int = 0) -> bytes:
        """Return what the logger emits: two topics, then the data."""
        data = number.to_bytes(32, "big") + salt.to_bytes(32, "big")
        return keccak256(b"a message") + keccak256(data) + data

    def _note(self, wrong: str, chain_id: int, receipt: Mapping[str, Any]) -> None:
        self.sent.append(Sent(wrong, chain_id, int(receipt["blockNumber"], 16), receipt["blockHash"]))

    async def _send(self, chain_id: int, key: Key, to: bytes, data: bytes, fees: Fees = FEES) -> Any:
        """Send a transaction and return its hash."""
        engine = self._engines[chain_id]
        nonce = int(await engine.call("eth_getTransactionCount", to_hex(key.address), "pending"), 16)
        raw = dynamic_fee_transaction(key, chain_id, nonce, to, 0, data, GAS, fees)
        return await engine.call("eth_sendRawTransaction", to_hex(raw))

    async def _receipt(self, chain_id: int, hashed: str) -> Any:
        """Return the receipt of a transaction. Raises TimeoutError where it is in no block."""
        async with asyncio.timeout(RECEIPT_SECONDS):
            while (receipt := await self._engines[chain_id].call("eth_getTransactionReceipt", hashed)) is None:
                await asyncio.sleep(POLL_SECONDS)
        return receipt
