"""The endpoints of a node on Zora Sepolia as `rollup-node check` finds them: each in order, until a test changes it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import orjson
from aiohttp import web

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1Info, encode_l1_info
from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.servers.threads import in_thread

ROLLUP = find_network("zora-sepolia").config
"""A network for which no fork is scheduled: of one that is, the checks may have more to say."""
SECRET = b"\x07" * 32
GENESIS_TIME = 1655733600
BLOB_HASH = "0x01" + "77" * 31
BLOB = "0x" + "00" * 131072
ORIGIN = 9_000_000
GENESIS = ROLLUP.genesis
SAFE = GENESIS.l2.number + (int(time.time()) - GENESIS.l2_time) // ROLLUP.block_time - 101
LATEST_TIME = GENESIS.l2_time + (SAFE + 100 - GENESIS.l2.number) * ROLLUP.block_time
GAS_LIMIT = 30_000_000
BATCHER = b"\x0b" * 20
METHODS = [f"engine_{name}V{n}" for name in ("forkchoiceUpdated", "getPayload", "newPayload") for n in range(1, 6)]
ROOT = "0x" + "11" * 32

Override = Callable[[web.Request], web.Response]


class CheckedEndpoints:
    """`l1` and `engine` map methods to results, functions of the parameters, or error objects.

    `beacon` maps paths to data or HTTP statuses. `instead`, by name of endpoint, answers every request."""

    def __init__(self) -> None:
        self.now = int(time.time())
        self.l1: dict[str, Any] = {
            "eth_chainId": hex(ROLLUP.l1_chain_id),
            "eth_getBlockByNumber": self._l1_block,
            "eth_getBlockReceipts": [],
            "eth_getProof": {"accountProof": [], "storageProof": []},
            "eth_call": self._l1_call,
        }
        self.inbox, self.gas_limit = ROLLUP.batch_inbox, GAS_LIMIT
        """What the SystemConfig contract says."""
        self.senders = [BATCHER]
        """Of the transactions to the inbox in each L1 block."""
        self.block_time = ROLLUP.block_time
        self.engine: dict[str, Any] = {
            "eth_chainId": hex(ROLLUP.l2_chain_id),
            "eth_getBlockByNumber": self._l2_block,
            "eth_getTransactionByBlockNumberAndIndex": lambda block, index: {"input": to_hex(self._l1_info())},
            "engine_exchangeCapabilities": METHODS,
            "engine_getClientVersionV1": [{"code": "RH", "name": "OP-Reth", "version": "2.10.0"}],
            "eth_getProof": {"accountProof": [], "storageProof": []},
        }
        self.header: dict[str, Any] = {
            "withdrawalsRoot": ROOT,
            "parentBeaconBlockRoot": ROOT,
            "requestsHash": ROOT,
            "extraData": "0x" + "01" * 17,
        }
        self.beacon: dict[str, Any] = {
            "eth/v1/beacon/genesis": {"genesis_time": str(GENESIS_TIME)},
            "eth/v1/config/deposit_contract": {"chain_id": str(ROLLUP.l1_chain_id), "address": "0x" + "00" * 20},
            "eth/v1/node/version": {"version": "Lighthouse/v8.0.0"},
            "eth/v1/config/spec": {"SECONDS_PER_SLOT": "12"},
        }
        self.blobs: Any = [BLOB]
        self.blobs_of: dict[int, Any] = {}
        self.instead: dict[str, Override] = {}
        self.paths: list[str] = []

    @property
    def l1_time(self) -> int:
        """The time of the L1 head, at the beginning of a slot."""
        return self.now - 12 - (self.now - 12 - GENESIS_TIME) % 12

    def slot_of(self, time_: int) -> int:
        """Return the slot that begins then."""
        return (time_ - GENESIS_TIME) // 12

    @contextmanager
    def served(self) -> Iterator[tuple[str, str, str]]:
        """Yield the URLs of L1, engine and beacon node, served by a thread."""
        apps = [app_for_every_path(self._handler(name)) for name in ("l1", "engine", "beacon")]
        with in_thread(listening(*apps)) as (l1, engine, beacon):
            yield l1, engine, beacon

    @contextmanager
    def served_over_ipc(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Yield the paths of sockets of L1 and engine, served by a thread."""
        paths = folder / "l1.ipc", folder / "engine.ipc"
        with in_thread(self._sockets(*paths)):
            yield str(paths[0]), str(paths[1])

    @asynccontextmanager
    async def _sockets(self, *paths: Path) -> AsyncIterator[None]:
        serve = [partial(self._serve_lines, methods) for methods in (self.l1, self.engine)]
        servers = [await asyncio.start_unix_server(handler, path) for handler, path in zip(serve, paths, strict=True)]
        yield
        for server in servers:
            server.close()

    async def _serve_lines(self, methods: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            body = self._rpc_answer(methods, orjson.loads(line)).body
            assert isinstance(body, bytes)
            writer.write(body + b"\n")
        writer.close()

    def _handler(self, name: str) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            if name in self.instead:
                return self.instead[name](request)
            if name == "beacon":
                return self._beacon_answer(request)
            if request.method != "POST":
                return web.Response(status=405)
            if name == "engine" and not is_token(request.headers.get("Authorization", "")):
                return web.Response(status=401, text="signature is invalid")
            return self._rpc_answer(getattr(self, name), orjson.loads(await request.read()))

        return handle

    def _beacon_answer(self, request: web.Request) -> web.Response:
        path = request.path.strip("/")
        self.paths.append(path)
        if path.startswith(("eth/v1/beacon/blobs/", "eth/v1/beacon/blob_sidecars/")):
            data = self.blobs_of.get(int(path.rpartition("/")[2]), self.blobs)
        else:
            data = self.beacon.get(path, 404)
        if isinstance(data, int):
            return web.json_response({"code": data, "message": "Beacon block not found"}, status=data)
        if isinstance(data, str):
            return web.json_response({"code": 500, "message": data}, status=500)
        return web.json_response({"data": data})

    @staticmethod
    def _rpc_answer(methods: dict[str, Any], call: dict[str, Any]) -> web.Response:
        missing = {"code": -32601, "message": f"the method {call['method']} does not exist/is not available"}
        method = methods.get(call["method"], missing)
        method = method(*call["params"]) if callable(method) else method
        kind = "error" if isinstance(method, dict) and "code" in method else "result"
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], kind: method})

    def _l1_block(self, name: str, full: bool) -> Any:
        head = ORIGIN + 100_000
        labels = {"latest": head, "finalized": head - 64}
        number = labels[name] if name in labels else int(name, 16)
        if number == ROLLUP.genesis.l1.number:
            return {"number": name, "hash": to_hex(ROLLUP.genesis.l1.hash), "timestamp": hex(GENESIS_TIME + 12)}
        transactions: list[Any] = [ROOT, ROOT]
        if full:
            transactions = [
                {"from": to_hex(bytes(20))},
                {"from": to_hex(bytes(20)), "blobVersionedHashes": [BLOB_HASH]},
            ]
            transactions += [{"from": to_hex(item), "to": to_hex(ROLLUP.batch_inbox)} for item in self.senders]
        return {
            "number": hex(number),
            "hash": ROOT,
            "timestamp": hex(self.l1_time - 12 * (head - number)),
            "blobGasUsed": hex(131072),
            "transactions": transactions,
        }

    def _l1_call(self, call: dict[str, str], block: str) -> str:
        assert call["to"] == to_hex(ROLLUP.l1_system_config)
        words = {"batchInbox()": self.inbox, "gasLimit()": self.gas_limit.to_bytes(8, "big")}
        by_selector = {to_hex(keccak256(name.encode())[:4]): word for name, word in words.items()}
        return to_hex(by_selector[call["data"]].rjust(32, b"\0"))

    def _l2_block(self, name: str, full: bool) -> Any:
        if name == hex(ROLLUP.genesis.l2.number):
            return {"number": name, "hash": to_hex(ROLLUP.genesis.l2.hash), "timestamp": hex(ROLLUP.genesis.l2_time)}
        number = {"safe": SAFE, "latest": SAFE + 100}.get(name) or int(name, 16)
        timestamp = LATEST_TIME - (SAFE + 100 - number) * self.block_time
        fields = {"number": hex(number), "hash": ROOT, "timestamp": hex(timestamp), "gasLimit": hex(GAS_LIMIT)}
        return {**fields, **self.header}

    @property
    def origin_time(self) -> int:
        """The time of the safe head's L1 origin."""
        return self.l1_time - 12 * 100_000

    def _l1_info(self) -> bytes:
        info = L1Info(
            number=ORIGIN,
            timestamp=self.origin_time,
            base_fee=1,
            block_hash=bytes(32),
            sequence_number=0,
            batcher=BATCHER,
        )
        return encode_l1_info(info, ROLLUP.schedule().l1_info_format(self.now))


def is_token(header: str) -> bool:
    """Return whether an Authorization header has a token of the secret."""
    try:
        jwt.decode(header.removeprefix("Bearer "), SECRET, algorithms=["HS256"])
    except jwt.InvalidTokenError:
        return False
    return True
