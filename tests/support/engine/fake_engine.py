"""The model engine over HTTP, in the JSON of its namespaces."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import jwt
from aiohttp import web

from rollup_node.stages.engine.calls.engine_api import BlockName, ErrorAnswer, Label
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.protocol.deposits import decode_deposit, is_deposit
from rollup_node.stages.protocol.engine_json import attributes_from_json, envelope_to_json, payload_from_json
from rollup_node.stages.protocol.hex_encoding import from_hex, from_quantity, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_header
from rollup_node.stages.protocol.transactions import decode_transaction
from rollup_node.stages.protocol.types import ZERO_ADDRESS
from rollup_node.tools.devnet.chain.blocks import bare_transaction_json, header_json
from rollup_node.tools.devnet.evm.transactions import Deposit, SignedTransaction
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.model_engine import ModelEngine
from tests.support.servers.http_listener import app_for_every_path, listening

SECRET = b"\x42" * 32
LABELS: Mapping[str, Label] = {"latest": "latest", "safe": "safe", "finalized": "finalized"}


class EngineFailure(Exception):
    """A JSON-RPC error to answer with; `data` are the members of its data."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code, self.data = code, data


def transaction_json(raw: bytes) -> dict[str, Any]:
    """Return a transaction as an engine shows it, but for the sender, which the signature need not have."""
    if is_deposit(raw):
        deposit = decode_deposit(raw)
        return bare_transaction_json(Deposit(raw, keccak256(raw), deposit.sender, deposit))
    return bare_transaction_json(SignedTransaction(raw, keccak256(raw), ZERO_ADDRESS, decode_transaction(raw)))


def block_json(payload: ExecutionPayload) -> dict[str, Any]:
    """Return a block as eth_getBlockByNumber shows it."""
    shown = header_json(payload_header(payload))
    transactions = [transaction_json(raw) for raw in payload.transactions]
    return {**shown, "hash": to_hex(payload.block_hash), "transactions": transactions, "withdrawals": []}


class FakeExecutionEngine(ModelEngine):
    """The model behind the engine and eth namespaces.

    `answers` replaces results of a method, one for each call, by others or by exceptions; `calls` lists the methods
    called; `delay` is the time that each HTTP request takes, in seconds. Of the first blocks from number 1 on it has
    `pruned` without their transactions."""

    def __init__(self, chain: ChainFixture) -> None:
        super().__init__(chain)
        self.answers: dict[str, list[Any]] = {}
        self.calls: list[str] = []
        self.url = ""
        self.tokens: set[str] = set()
        self.delay = 0.0
        self.pruned = 0

    def do(self, method: str, params: Sequence[Any]) -> Any:
        """Return the result of a method. Raises EngineFailure for an error answer."""
        self.calls.append(method)
        if self.answers.get(method):
            answer = self.answers[method].pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        name = method.rstrip("12345").rstrip("V")
        return getattr(self, name)(*params)

    def eth_chainId(self) -> str:
        return hex(self.chain.rollup.l2_chain_id)

    def eth_syncing(self) -> Any:
        return False

    def eth_blockNumber(self) -> str:
        return hex(self.chain.known[self.head].ref.number)

    def eth_getBlockByNumber(self, name: str, full: bool) -> Any:
        return self._shown(LABELS[name] if name in LABELS else from_quantity(name))

    def eth_getBlockByHash(self, name: str, full: bool) -> Any:
        return self._shown(from_hex(name))

    def _shown(self, name: BlockName) -> Any:
        payload = self.block(name)
        if payload is None:
            return None
        result = block_json(payload)
        return {**result, "transactions": []} if 0 < payload.block_number <= self.pruned else result

    def engine_forkchoiceUpdated(self, state: Mapping[str, str], attributes: Any) -> Any:
        names = ("headBlockHash", "safeBlockHash", "finalizedBlockHash")
        forkchoice = Forkchoice(*(from_hex(state[name]) for name in names))
        answer = self.update_forkchoice(forkchoice, None if attributes is None else attributes_from_json(attributes))
        if isinstance(answer, ErrorAnswer):
            raise EngineFailure(answer.code, answer.message)
        payload_id = None if answer.payload_id is None else to_hex(answer.payload_id)
        return {"payloadStatus": {"status": answer.status}, "payloadId": payload_id}

    def engine_getPayload(self, payload_id: str) -> Any:
        answer = self.get_payload(from_hex(payload_id))
        if isinstance(answer, ErrorAnswer):
            raise EngineFailure(answer.code, answer.message)
        return envelope_to_json(answer)

    def engine_newPayload(self, payload: Any, *rest: Any) -> Any:
        root = from_hex(rest[1]) if len(rest) > 1 else None
        answer = self.new_payload(payload_from_json(payload, root))
        return {"status": answer.status, "latestValidHash": payload["blockHash"]}

    async def handle(self, request: web.Request) -> web.Response:
        """Return the answer to an HTTP request."""
        token = request.headers.get("Authorization", "")
        self.tokens.add(token)
        try:
            jwt.decode(token.removeprefix("Bearer "), SECRET, algorithms=["HS256"])
        except jwt.InvalidTokenError as error:
            return web.Response(status=401, text=str(error))
        body = await request.json()
        await asyncio.sleep(self.delay)
        replies = [self.reply(item) for item in body] if isinstance(body, list) else self.reply(body)
        return web.json_response(replies)

    def reply(self, request: Mapping[str, Any]) -> Any:
        result = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            return {**result, "result": self.do(request["method"], request["params"])}
        except EngineFailure as failure:
            return {**result, "error": {"code": failure.code, "message": str(failure), "data": failure.data or None}}

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator["FakeExecutionEngine"]:
        """Listen on loopback; `url` says where."""
        async with listening(app_for_every_path(self.handle), port=port) as (url,):
            self.url = f"{url}/"
            yield self


class SlowEngine(FakeExecutionEngine):
    """Answers reads of a block's receipts, and of blocks by hash, only when `ready` is set; `slow` lists these."""

    def __init__(self, chain: ChainFixture) -> None:
        super().__init__(chain)
        self.ready = asyncio.Event()
        self.ready.set()
        self.slow: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        if isinstance(body, dict) and body["method"] in ("eth_getBlockReceipts", "eth_getBlockByHash"):
            self.slow.append(body["method"])
            await self.ready.wait()
        return await super().handle(request)


def sequencing_engine(l1_step: int = 12) -> FakeExecutionEngine:
    """Return an engine at genesis of a chain with a block every second."""
    return FakeExecutionEngine(chain_with(block_time=1, l1_step=l1_step))
