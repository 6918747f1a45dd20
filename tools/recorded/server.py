"""Serves a recording as an L1 JSON-RPC endpoint and a Beacon API on one loopback port.

Requests for data that the recording lacks get an error that names it. Without the `/blobs` route only sidecars are
served; their proofs are computed here.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import orjson
from aiohttp import web

from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.batcher.kzg_proofs import compute_proof
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, Method, application
from rollup_node.tools.recorded.recording import NotRecorded, RecordedBlock, Recording

T = TypeVar("T")

SEPOLIA_CHAIN_ID = 11_155_111
BEACON_GENESIS_TIME = 1_655_733_600
SLOT_SECONDS = 12
LABEL_DISTANCE = {"latest": 0, "safe": 16, "finalized": 32}
"""Blocks between the head and the block of a label."""


class RecordedL1:
    """The eth namespace over a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._head = recording.last_with_transactions().number

    def methods(self) -> dict[str, Method]:
        """Return the method table of the JSON-RPC server."""
        return {
            "eth_chainId": lambda: hex(SEPOLIA_CHAIN_ID),
            "eth_blockNumber": lambda: hex(self._head),
            "eth_getBlockByNumber": self.block_by_number,
            "eth_getBlockByHash": self.block_by_hash,
            "eth_getBlockReceipts": self.receipts,
            "eth_getTransactionReceipt": self.receipt,
        }

    def block_by_number(self, number: str, full: bool) -> dict[str, Any]:
        """eth_getBlockByNumber. Raises JsonRpcError for a block that was not recorded."""
        if number in LABEL_DISTANCE:
            wanted = max(self._recording.first, self._head - LABEL_DISTANCE[number])
        else:
            wanted = int(number, 16)
        return _or_rpc_error(lambda: self._recording.block(wanted).block(full))

    def block_by_hash(self, block_hash: str, full: bool) -> dict[str, Any]:
        """eth_getBlockByHash. Raises JsonRpcError for a block that was not recorded."""
        return _or_rpc_error(lambda: self._recording.block_by_hash(from_hex(block_hash)).block(full))

    def receipts(self, block: str) -> list[dict[str, Any]]:
        """eth_getBlockReceipts by number or hash. Raises JsonRpcError for receipts that were not recorded."""
        return _or_rpc_error(lambda: self._find(block).receipts_json())

    def receipt(self, transaction: str) -> dict[str, Any]:
        """eth_getTransactionReceipt. Raises JsonRpcError for a receipt that was not recorded."""
        for block in self._recording.by_number.values():
            if block.receipts is not None:
                for receipt in block.receipts_json():
                    if receipt["transactionHash"] == transaction:
                        return receipt
        raise JsonRpcError(SERVER_ERROR, f"the receipt of {transaction} was not recorded")

    def _find(self, block: str) -> RecordedBlock:
        is_hash = len(block) == 66
        return self._recording.block_by_hash(from_hex(block)) if is_hash else self._recording.block(int(block, 16))


def _or_rpc_error(lookup: Callable[[], T]) -> T:
    try:
        return lookup()
    except NotRecorded as error:
        raise JsonRpcError(SERVER_ERROR, str(error)) from error


class RecordedBeacon:
    """The Beacon API over a recording's blobs."""

    def __init__(self, recording: Recording, blobs_endpoint: bool) -> None:
        self._recording = recording
        self._blobs_endpoint = blobs_endpoint
        self._slots = {self._slot(block): block for block in recording.by_number.values()}
        self.proof = cache(self._compute_proof)

    def add_routes(self, app: web.Application) -> None:
        """Add the Beacon API routes that a rollup node uses."""
        get = app.router.add_get
        get("/eth/v1/node/version", _constant({"version": "recorded/1"}))
        get("/eth/v1/beacon/genesis", _constant({"genesis_time": str(BEACON_GENESIS_TIME)}))
        get("/eth/v1/config/spec", _constant({"SECONDS_PER_SLOT": str(SLOT_SECONDS)}))
        get("/eth/v1/beacon/blob_sidecars/{slot}", self.sidecars)
        if self._blobs_endpoint:
            get("/eth/v1/beacon/blobs/{slot}", self.blobs)

    async def blobs(self, request: web.Request) -> web.Response:
        """GET blobs/{slot}: the blobs of a block, or those with the `versioned_hashes` given."""
        wanted = [part for value in request.query.getall("versioned_hashes", []) for part in value.split(",")]
        hashes = self._hashes(request)
        if hashes is None:
            return _json({"code": 404, "message": "block not hashes"}, 404)
        chosen = [item for item in hashes if not wanted or to_hex(item) in wanted]
        missing = [item for item in chosen if item not in self._recording.blobs]
        if missing:
            return _json({"code": 500, "message": f"blob {to_hex(missing[0])} was not recorded"}, 500)
        return _json({"data": [to_hex(self._recording.blobs[item][0]) for item in chosen]})

    async def sidecars(self, request: web.Request) -> web.Response:
        """GET blob_sidecars/{slot}: the sidecars of a block, or those with the `indices` given."""
        hashes = self._hashes(request)
        if hashes is None:
            return _json({"code": 404, "message": "block not hashes"}, 404)
        wanted = [int(part) for value in request.query.getall("indices", []) for part in value.split(",")]
        sidecars = []
        for index, item in enumerate(hashes):
            if wanted and index not in wanted:
                continue
            if item not in self._recording.blobs:
                if wanted:
                    return _json({"code": 500, "message": f"blob {to_hex(item)} was not recorded"}, 500)
                continue
            blob, commitment = self._recording.blobs[item]
            sidecars.append(
                {
                    "index": str(index),
                    "blob": to_hex(blob),
                    "kzg_commitment": to_hex(commitment),
                    "kzg_proof": to_hex(self.proof(item)),
                }
            )
        return _json({"data": sidecars})

    def _hashes(self, request: web.Request) -> list[bytes] | None:
        block = self._slots.get(int(request.match_info["slot"])) if request.match_info["slot"].isdigit() else None
        return None if block is None else block.blob_hashes()

    def _slot(self, block: RecordedBlock) -> int:
        return (block.timestamp - BEACON_GENESIS_TIME) // SLOT_SECONDS

    def _compute_proof(self, versioned_hash: bytes) -> bytes:
        blob, commitment = self._recording.blobs[versioned_hash]
        return compute_proof(blob, commitment)


def _constant(data: dict[str, str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return _json({"data": data})

    return handle


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json", status=status)


@asynccontextmanager
async def serving(recording: Recording, port: int, blobs_endpoint: bool) -> AsyncIterator[str]:
    """Serve a recording; the URL."""
    app = application(JsonRpc(RecordedL1(recording).methods()))
    RecordedBeacon(recording, blobs_endpoint).add_routes(app)
    async with Listener(app, port) as listener:
        yield listener.url


async def serve(folder: Path, port: int, blobs_endpoint: bool) -> None:
    """Serve until cancelled; prints the URL once it listens."""
    recording = Recording.load(folder)
    async with serving(recording, port, blobs_endpoint) as url:
        print(f"serving L1 {recording.first} to {recording.last} at {url}", flush=True)
        await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until a signal stops it."""
    parser = argparse.ArgumentParser(
        prog="recorded", description="Serves recorded L1 data as L1 JSON-RPC and Beacon API.", allow_abbrev=False
    )
    parser.add_argument("folder", type=Path, help="the recording: l1_blocks.jsonl.gz, expected.json, blob_*.bin")
    parser.add_argument("--port", type=int, default=0, help="0: a free one, printed")
    parser.add_argument("--sidecars-only", action="store_true", help="without the /blobs endpoint")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    if not (args.folder / "l1_blocks.jsonl.gz").is_file():
        print(f"error: {args.folder} holds no recording (l1_blocks.jsonl.gz is missing)", file=sys.stderr)
        return 1
    try:
        asyncio.run(serve(args.folder, args.port, not args.sidecars_only))
    except KeyboardInterrupt:
        return 0
    return 0
