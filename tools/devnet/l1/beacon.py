"""The Beacon API routes that a rollup node uses: genesis, spec, and blobs, sidecars and commitments by slot."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs

import orjson

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.l1.sidecars import Blob
from rollup_node.tools.devnet.serving.http_server import Answer, HttpRequest, HttpResponse

_SSZ = "application/octet-stream"
_Blobs = Sequence[tuple[Hash, Blob]]


class BlobSource(Protocol):
    """The chain behind the API; times in seconds."""

    genesis_time: int
    slot_seconds: int

    def blobs_at(self, slot: int) -> _Blobs | None:
        """The blobs of the canonical block of a slot in block order; None for a slot without a block."""


def beacon_answer(source: BlobSource) -> Answer:
    """Answers to the requests of the API."""
    constants = {
        "/eth/v1/node/version": {"version": "embedded development L1"},
        "/eth/v1/beacon/genesis": {"genesis_time": str(source.genesis_time)},
        "/eth/v1/config/spec": {"SECONDS_PER_SLOT": str(source.slot_seconds)},
    }

    async def answer(request: HttpRequest) -> HttpResponse:
        if request.path in constants:
            return _json(constants[request.path])
        route, _, slot = request.path.rpartition("/")
        if route not in _BY_SLOT:
            return HttpResponse(status=404)
        found = source.blobs_at(int(slot)) if slot.isascii() and slot.isdigit() else None
        return _not_found() if found is None else _BY_SLOT[route](found, request)

    return answer


def _blobs(found: _Blobs, request: HttpRequest) -> HttpResponse:
    wanted = _query_values(request, "versioned_hashes")
    contents = [blob.content for name, blob in found if not wanted or to_hex(name) in wanted]
    if _SSZ in request.headers.get("accept", ""):
        return HttpResponse(b"".join(contents), media=_SSZ)
    return _json([to_hex(content) for content in contents])


def _sidecars(found: _Blobs, request: HttpRequest) -> HttpResponse:
    wanted = _query_values(request, "indices")
    return _json([_sidecar(index, blob) for index, (_, blob) in enumerate(found) if not wanted or str(index) in wanted])


def _blinded_block(found: _Blobs, request: HttpRequest) -> HttpResponse:
    return _json({"message": {"body": {"blob_kzg_commitments": [to_hex(blob.commitment) for _, blob in found]}}})


_BY_SLOT: dict[str, Callable[[_Blobs, HttpRequest], HttpResponse]] = {
    "/eth/v1/beacon/blobs": _blobs,
    "/eth/v1/beacon/blinded_blocks": _blinded_block,
    "/eth/v1/beacon/blob_sidecars": _sidecars,
}


def _query_values(request: HttpRequest, name: str) -> set[str]:
    return {part for value in parse_qs(request.query).get(name, []) for part in value.split(",")}


def _sidecar(index: int, blob: Blob) -> dict[str, str]:
    return {
        "index": str(index),
        "blob": to_hex(blob.content),
        "kzg_commitment": to_hex(blob.commitment),
        "kzg_proof": to_hex(blob.proof),
    }


def _json(data: Any) -> HttpResponse:
    return HttpResponse(orjson.dumps({"data": data}))


def _not_found() -> HttpResponse:
    return HttpResponse(orjson.dumps({"code": 404, "message": "block not found"}), 404)
