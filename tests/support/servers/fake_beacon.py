"""A Beacon API whose routes can be taken away or changed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash
from tests.support.servers.http_listener import app_for_every_path

GENESIS, SLOT = 1000, 7


class KnownBlob(NamedTuple):
    """A blob with its versioned hash, commitment and, where it is asked for, proof."""

    hash: Hash
    blob: bytes
    commitment: bytes
    proof: bytes = b""


class FakeBeacon:
    """Has these blobs in slot 7.

    `status` replaces the responses of a route, with the text `words`, `delay` is that of blocks and blobs in seconds,
    `change` alters the list of blobs or sidecars before it is sent, and with `ignores_hashes` the blobs route returns
    all blobs. `in_gloas` its blocks have a bid, and no blinded form; `bare` it sends without an envelope."""

    def __init__(self, blobs: Sequence[KnownBlob]) -> None:
        self.blobs = list(blobs)
        self.requested: list[str] = []
        self.keys: list[str | None] = []
        self.status: dict[str, int] = {}
        self.words = "<html>no</html>"
        self.delay = 0.0
        self.genesis_time = GENESIS
        self.change: Callable[[list[Any]], list[Any]] = lambda listed: listed
        self.ignores_hashes = self.in_gloas = self.bare = False

    def app(self) -> web.Application:
        """Return the API."""
        return app_for_every_path(self.respond)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Return the response to one request."""
        parts = request.path.strip("/").split("/")
        is_of_slot = parts[-1] not in ("genesis", "spec")
        name, slot = (parts[-2], int(parts[-1])) if is_of_slot else (parts[-1], SLOT)
        data = {
            "genesis": self._genesis,
            "spec": self._spec,
            "blobs": self._blobs,
            "blob_sidecars": self._sidecars,
            "blinded_blocks": self._block,
            "blocks": self._block,
        }
        if name not in data:
            return web.Response(status=404)
        self.requested.append(name)
        self.keys.append(request.headers.get("X-Key"))
        await asyncio.sleep(self.delay if is_of_slot else 0)
        if name in self.status:
            return web.Response(status=self.status[name], text=self.words)
        if slot != SLOT:
            return web.json_response({"code": 404, "message": f"no block in slot {slot}"}, status=404)
        if self.in_gloas and name == "blinded_blocks":
            return web.json_response({"code": 400, "message": "no blinded blocks in Gloas"}, status=400)
        result = data[name](request)
        return web.json_response(result if self.bare else {"data": result})

    def _genesis(self, request: web.Request) -> Any:
        return {"genesis_time": str(self.genesis_time)}

    def _spec(self, request: web.Request) -> Any:
        return {"SLOT_DURATION_MS": "12000"}

    def _blobs(self, request: web.Request) -> Any:
        hashes = request.query.getall("versioned_hashes")
        chosen = [blob for blob in self.blobs if self.ignores_hashes or to_hex(blob.hash) in hashes]
        return self.change([to_hex(item.blob) for item in chosen])

    def _sidecars(self, request: web.Request) -> Any:
        indices = request.query.getall("indices", [])
        return self.change(
            [
                {
                    "index": str(index),
                    "blob": to_hex(item.blob),
                    "kzg_commitment": to_hex(item.commitment),
                    "kzg_proof": to_hex(item.proof),
                }
                for index, item in enumerate(self.blobs)
                if not indices or str(index) in indices
            ]
        )

    def _block(self, request: web.Request) -> Any:
        result = {"blob_kzg_commitments": [to_hex(blob.commitment) for blob in self.blobs]}
        return {"message": {"body": {"signed_execution_payload_bid": {"message": result}} if self.in_gloas else result}}
