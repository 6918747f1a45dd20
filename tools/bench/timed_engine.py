"""An execution engine without execution, as a process of its own.

It accepts every block, seals what it is asked for with transactions of its pool, and notes when each request arrived
and was answered."""

import asyncio
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.engine_json import attributes_from_json, envelope_to_json, payload_from_json
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, payload_header
from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.tools.bench.signed_blocks import pool, sealed

MAX_BODY = 32 << 20


class TimedCall(NamedTuple):
    """A request: `number` of the block it is about (of a build: the block to build), times in monotonic seconds."""

    method: str
    number: int
    builds: bool
    arrived: float
    answered: float


class EngineProcess:
    """Runs the engine for the life of a `with` block; `url` is its Engine API."""

    def __init__(self, config: RollupConfig, genesis: ExecutionPayload, transactions: int) -> None:
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        arguments = (config, genesis, transactions, theirs)
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        self.url = ""

    def __enter__(self) -> "EngineProcess":
        self._process.start()
        self.url = f"http://127.0.0.1:{self._ours.recv()}/"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def calls(self) -> list[TimedCall]:
        """All requests so far; the engine ends."""
        self._ours.send(None)
        calls: list[TimedCall] = self._ours.recv()
        return calls


def _run(config: RollupConfig, genesis: ExecutionPayload, transactions: int, pipe: Connection) -> None:
    asyncio.run(_serve(_Engine(config, genesis, pool(transactions)), pipe))


async def _serve(engine: "_Engine", pipe: Connection) -> None:
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/", engine.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(runner.addresses[0][1])
    await asyncio.to_thread(pipe.recv)
    pipe.send(engine.timed)
    await runner.cleanup()


class _Engine:
    def __init__(self, config: RollupConfig, genesis: ExecutionPayload, transactions: tuple[bytes, ...]) -> None:
        self.timed: list[TimedCall] = []
        self._config, self._genesis, self._pool = config, genesis, transactions
        self._numbers: dict[Hash, int] = {genesis.block_hash: 0}
        self._builds: dict[str, tuple[BlockId, PayloadAttributes]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        arrived = time.monotonic()
        call = orjson.loads(body)
        method, params = call["method"], call["params"]
        name = method.rstrip("12345").removesuffix("V")
        answers: dict[str, Callable[..., tuple[int, Any]]] = {
            "engine_forkchoiceUpdated": self._forkchoice,
            "engine_getPayload": self._payload,
            "engine_newPayload": self._new_payload,
        }
        number, result = answers[name](*params) if name in answers else (0, self._read(method, params))
        answer = orjson.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result})
        builds = name == "engine_forkchoiceUpdated" and params[1] is not None
        self.timed.append(TimedCall(name, number, builds, arrived, time.monotonic()))
        return web.Response(body=answer, content_type="application/json")

    def _read(self, method: str, params: list[Any]) -> Any:
        if method == "eth_chainId":
            return hex(self._config.l2_chain_id)
        if method in ("eth_getBlockByNumber", "eth_getBlockByHash"):
            is_genesis = params[0] in ("latest", "0x0", to_hex(self._genesis.block_hash))
            return _genesis_json(self._genesis) if is_genesis else None
        return False if method == "eth_syncing" else None

    def _forkchoice(self, state: dict[str, str], attributes: Any) -> tuple[int, Any]:
        head = from_hex(state["headBlockHash"])
        number, status = self._numbers[head], {"status": "VALID", "latestValidHash": state["headBlockHash"]}
        if attributes is None:
            return number, {"payloadStatus": status, "payloadId": None}
        payload_id = to_hex((number + 1).to_bytes(8, "big"))
        self._builds[payload_id] = (BlockId(number, head), attributes_from_json(attributes))
        return number + 1, {"payloadStatus": status, "payloadId": payload_id}

    def _payload(self, payload_id: str) -> tuple[int, Any]:
        parent, attributes = self._builds.pop(payload_id)
        return parent.number + 1, envelope_to_json(sealed(self._config, parent, attributes, self._pool))

    def _new_payload(self, value: Any, _hashes: Any, root: str, *_: Any) -> tuple[int, Any]:
        payload = payload_from_json(value, from_hex(root))
        self._numbers[payload.block_hash] = payload.block_number
        return payload.block_number, {"status": "VALID", "latestValidHash": to_hex(payload.block_hash)}


def _genesis_json(genesis: ExecutionPayload) -> dict[str, Any]:
    header = payload_header(genesis)
    names: dict[str, int | bytes] = {
        "parentHash": header.parent_hash,
        "sha3Uncles": header.uncles_hash,
        "miner": header.miner,
        "stateRoot": header.state_root,
        "transactionsRoot": header.transactions_root,
        "receiptsRoot": header.receipts_root,
        "logsBloom": header.logs_bloom,
        "difficulty": header.difficulty,
        "number": header.number,
        "gasLimit": header.gas_limit,
        "gasUsed": header.gas_used,
        "timestamp": header.timestamp,
        "extraData": header.extra_data,
        "mixHash": header.mix_hash,
        "nonce": header.nonce,
        "baseFeePerGas": header.base_fee or 0,
    }
    shown = {name: hex(value) if isinstance(value, int) else to_hex(value) for name, value in names.items()}
    return {**shown, "hash": to_hex(genesis.block_hash), "transactions": []}
