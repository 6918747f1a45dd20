"""The Beacon API routes that a rollup node uses: genesis, spec, and blobs, sidecars and commitments by slot."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import orjson
from aiohttp import web

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.l1.sidecars import Blob

_SSZ = "application/octet-stream"


class BlobSource(Protocol):
    """The chain behind the API; times in seconds."""

    genesis_time: int
    slot_seconds: int

    def blobs_at(self, slot: int) -> Sequence[tuple[Hash, Blob]] | None:
        """The blobs of the canonical block of a slot in block order; None for a slot without a block."""


def application(source: BlobSource) -> web.Application:
    """The web application with the routes."""
    app = web.Application()
    get = app.router.add_get
    get("/eth/v1/node/version", _constant({"version": "embedded development L1"}))
    get("/eth/v1/beacon/genesis", _constant({"genesis_time": str(source.genesis_time)}))
    get("/eth/v1/config/spec", _constant({"SECONDS_PER_SLOT": str(source.slot_seconds)}))

    async def blobs(request: web.Request) -> web.Response:
        found = _find(source, request)
        if found is None:
            return _not_found()
        wanted = _query_values(request, "versioned_hashes")
        contents = [blob.content for name, blob in found if not wanted or to_hex(name) in wanted]
        if _SSZ in request.headers.get("Accept", ""):
            return web.Response(body=b"".join(contents), content_type=_SSZ)
        return _json([to_hex(content) for content in contents])

    async def sidecars(request: web.Request) -> web.Response:
        found = _find(source, request)
        if found is None:
            return _not_found()
        wanted = _query_values(request, "indices")
        return _json(
            [_sidecar(index, blob) for index, (_, blob) in enumerate(found) if not wanted or str(index) in wanted]
        )

    async def blinded_block(request: web.Request) -> web.Response:
        found = _find(source, request)
        if found is None:
            return _not_found()
        return _json({"message": {"body": {"blob_kzg_commitments": [to_hex(blob.commitment) for _, blob in found]}}})

    get("/eth/v1/beacon/blobs/{slot}", blobs)
    get("/eth/v1/beacon/blinded_blocks/{slot}", blinded_block)
    get("/eth/v1/beacon/blob_sidecars/{slot}", sidecars)
    return app


def _find(source: BlobSource, request: web.Request) -> Sequence[tuple[Hash, Blob]] | None:
    slot = request.match_info["slot"]
    return source.blobs_at(int(slot)) if slot.isdigit() else None


def _query_values(request: web.Request, name: str) -> set[str]:
    return {part for value in request.query.getall(name, []) for part in value.split(",")}


def _sidecar(index: int, blob: Blob) -> dict[str, str]:
    return {
        "index": str(index),
        "blob": to_hex(blob.content),
        "kzg_commitment": to_hex(blob.commitment),
        "kzg_proof": to_hex(blob.proof),
    }


def _constant(data: dict[str, str]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return _json(data)

    return handle


def _json(data: Any) -> web.Response:
    return web.Response(body=orjson.dumps({"data": data}), content_type="application/json")


def _not_found() -> web.Response:
    body = orjson.dumps({"code": 404, "message": "block not found"})
    return web.Response(status=404, body=body, content_type="application/json")
