"""The L1 and the Beacon API of a race."""

import gzip
from typing import Any

import orjson
import pytest

from rollup_node.stages.blobs import beacon_api
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.l1_server import BeaconApi, L1Endpoint


def call(endpoint: L1Endpoint, method: str, *params: Any) -> Any:
    body = orjson.dumps({"id": 1, "method": method, "params": params})
    return orjson.loads(b"".join(endpoint.rpc.respond(b"/", b"", body).parts))["result"]


def test_blocks_by_number_label_and_hash(course: CourseFiles) -> None:
    endpoint, facts = L1Endpoint(course), course.facts
    latest = call(endpoint, "eth_getBlockByNumber", "latest", True)
    assert (latest["hash"], len(latest["transactions"])) == (facts.l1_hashes[12], 20)
    header = call(endpoint, "eth_getBlockByHash", facts.l1_hashes[3], False)
    assert header["number"] == hex(facts.l1_genesis + 3)
    assert isinstance(header["transactions"][0], str)
    assert call(endpoint, "eth_getBlockByNumber", "finalized", False)["hash"] == facts.l1_hashes[0]
    assert call(endpoint, "eth_getBlockByNumber", hex(facts.l1_head + 1), True) is None
    assert call(endpoint, "eth_getBlockByHash", "0x" + "00" * 32, True) is None
    assert endpoint.rpc.calls == {
        "eth_getBlockByNumber latest full": 1,
        "eth_getBlockByHash header": 1,
        "eth_getBlockByNumber finalized header": 1,
        "eth_getBlockByNumber full": 1,
        "eth_getBlockByHash full": 1,
    }


def test_answers_are_compressed_for_clients_that_take_it(course: CourseFiles) -> None:
    endpoint, facts = L1Endpoint(course), course.facts
    calls = [("eth_getBlockByHash", [facts.l1_hashes[3], True]), ("eth_blockNumber", [])]
    asked = orjson.dumps([{"id": 1, "method": name, "params": params} for name, params in calls])
    plain = endpoint.rpc.respond(b"/", b"POST / HTTP/1.1", asked)
    size = endpoint.rpc.sizes["eth_getBlockByHash full"]
    packed = endpoint.rpc.respond(b"/", b"POST / HTTP/1.1\r\naccept-encoding: deflate, gzip", asked)
    assert (plain.encoding, packed.encoding) == (b"", b"gzip")
    assert gzip.decompress(b"".join(packed.parts)) == b"".join(plain.parts)
    assert endpoint.rpc.sizes["eth_getBlockByHash full"] < 1.6 * size
    small = orjson.dumps({"id": 1, "method": "eth_blockNumber"})
    assert not endpoint.rpc.respond(b"/", b"POST / HTTP/1.1\r\naccept-encoding: gzip", small).encoding


def test_fresh_blocks_come_one_by_one(course: CourseFiles) -> None:
    endpoint, facts = L1Endpoint(course, fresh=2), course.facts
    last = hex(facts.l1_head)
    assert call(endpoint, "eth_getBlockByNumber", "latest", False)["hash"] == facts.l1_hashes[-3]
    assert call(endpoint, "eth_getBlockByNumber", last, True) is None
    assert call(endpoint, "eth_getBlockReceipts", facts.l1_hashes[-1]) is None
    endpoint.advance()
    endpoint.advance()
    assert (endpoint.fresh, call(endpoint, "eth_blockNumber")) == (0, last)
    assert call(endpoint, "eth_getBlockByNumber", "latest", False)["hash"] == facts.l1_hashes[-1]


def test_receipts_proof_and_constants(course: CourseFiles) -> None:
    endpoint, facts = L1Endpoint(course), course.facts
    by_hash = call(endpoint, "eth_getBlockReceipts", facts.l1_hashes[5])
    assert by_hash == call(endpoint, "eth_getBlockReceipts", hex(facts.l1_genesis + 5))
    assert len(by_hash) == 20
    assert call(endpoint, "eth_chainId") == "0x1"
    assert call(endpoint, "eth_syncing") is False
    assert call(endpoint, "eth_getProof", "0x", [], "latest")["nonce"] == "0x1"


def test_the_routes_of_the_beacon_api(course: CourseFiles) -> None:
    api = BeaconApi(course)

    def get(target: str) -> bytes:
        return b"".join(api.respond(target.encode(), b"", b"").parts)

    assert beacon_api.parse_genesis_time(get("/eth/v1/beacon/genesis")) == course.facts.beacon_genesis_time
    assert beacon_api.parse_slot_milliseconds(get("/eth/v1/config/spec")) == 12_000
    slot, hashes = next(iter(course.facts.blobs.items()))
    assert len(beacon_api.parse_blobs(get(f"/eth/v1/beacon/blobs/{slot}?versioned_hashes={hashes[0]}"))) == 1
    assert beacon_api.parse_blobs(get(f"/eth/v1/beacon/blobs/{slot}?versioned_hashes=0x00")) == ()
    wanted = {bytes.fromhex(name[2:]) for name in hashes}
    assert len(beacon_api.parse_sidecars(get(f"/eth/v1/beacon/blob_sidecars/{slot}?indices=0"), wanted)) == 1
    assert len(beacon_api.parse_block_commitments(get(f"/eth/v1/beacon/blinded_blocks/{slot}"))) == len(hashes)
    assert api.calls["/eth/v1/beacon/blobs"] == 2
    sizes = api.sizes.total()
    target = f"/eth/v1/beacon/blobs/{slot}?versioned_hashes={hashes[0]}"
    in_ssz = api.respond(target.encode(), b"get / http/1.1\r\naccept: application/octet-stream", b"")
    assert beacon_api.parse_ssz_blobs(b"".join(in_ssz.parts)) == beacon_api.parse_blobs(get(target))
    assert in_ssz.media == b"application/octet-stream" and api.sizes.total() - sizes > 131_072 + 262_144
    api.calls.clear()
    assert api.requests == 8 and not api.calls


@pytest.mark.parametrize("path", ["/eth/v1/beacon/blobs/999", "/eth/v2/beacon/blocks/1", "/", "/eth/v1/beacon/blobs/x"])
def test_other_routes_and_slots_without_blobs(course: CourseFiles, path: str) -> None:
    assert BeaconApi(course).respond(path.encode(), b"", b"").status == 404
