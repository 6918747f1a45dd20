"""The engine of a race."""

from typing import Any

import orjson

from rollup_node.stages.protocol.block_refs import payload_from_block_json
from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.payloads import payload_block_hash
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.engine import Engine


class World:
    def __init__(self, course: CourseFiles) -> None:
        self.course, self.events = course, list[str]()
        note = self.events.append
        self.engine = Engine(course, lambda: note("attributes"), note, lambda: note("safe"))
        self.hashes = course.facts.l2_hashes

    def call(self, method: str, *params: Any) -> Any:
        body = orjson.dumps({"id": 1, "method": method, "params": params})
        return orjson.loads(b"".join(self.engine.rpc.respond(b"/", b"", body).parts))["result"]

    def choose(self, head: str, attributes: Any = None) -> Any:
        state = {"headBlockHash": head, "safeBlockHash": head, "finalizedBlockHash": self.hashes[0]}
        return self.call("engine_forkchoiceUpdatedV3", state, attributes)

    def attributes(self, number: int) -> Any:
        return orjson.loads(self.course.body(f"l2/{number}/attributes"))

    def insert(self, payload_id: str) -> Any:
        found = self.call("engine_getPayloadV4", payload_id)
        payload = envelope_from_json(found)
        assert payload_block_hash(payload) == payload.block_hash
        root = found["parentBeaconBlockRoot"]
        assert self.call("engine_newPayloadV4", found["executionPayload"], [], root, [])["status"] == "VALID"
        return found["executionPayload"]["blockHash"]


def test_a_walk_over_the_course(course: CourseFiles) -> None:
    world = World(course)
    for number in range(1, 41):
        answer = world.choose(world.hashes[number - 1], world.attributes(number))
        assert answer["payloadStatus"]["latestValidHash"] == world.hashes[number - 1]
        assert world.insert(answer["payloadId"]) == world.hashes[number]
        assert world.events == ["attributes"]
    assert world.choose(world.hashes[40])["payloadId"] is None
    assert world.events == ["attributes", "safe"]
    assert world.call("eth_getBlockByNumber", "latest", False)["hash"] == world.hashes[40]
    assert world.call("eth_getBlockByNumber", "0x7", True)["hash"] == world.hashes[7]
    assert world.call("eth_getBlockByNumber", "0x29", True) is None
    assert world.call("eth_blockNumber") == "0x28"


def test_other_attributes_are_built_and_named(course: CourseFiles) -> None:
    world = World(course)
    other = world.attributes(1) | {"gasLimit": "0x1"}
    name = world.insert(world.choose(world.hashes[0], other)["payloadId"])
    assert name != world.hashes[1]
    assert world.events == ["attributes", "block 1 has other gasLimit"]
    block = world.call("eth_getBlockByHash", name, True)
    assert payload_from_block_json(block).gas_limit == 1
    assert world.choose(name, world.attributes(2))["payloadStatus"]["status"] == "VALID"
    assert world.events[2:] == ["not on a block of the course"]
    assert world.call("eth_getBlockByNumber", "0x1", False)["hash"] == name
    assert world.call("eth_getBlockByNumber", "0x0", False)["hash"] == world.hashes[0]
    assert world.call("eth_getBlockByNumber", "0x2", False) is None


def test_unknown_and_unsound_blocks(course: CourseFiles) -> None:
    world = World(course)
    assert world.choose(world.hashes[3])["payloadStatus"]["status"] == "SYNCING"
    first = orjson.loads(course.body("l2/1/envelope"))
    payload, root = first["executionPayload"], first["parentBeaconBlockRoot"]
    orphan = payload | {"parentHash": world.hashes[9]}
    assert world.call("engine_newPayloadV4", orphan, [], root, [])["status"] == "SYNCING"
    forged = payload | {"blockHash": world.hashes[9]}
    assert world.call("engine_newPayloadV4", forged, [], root, [])["validationError"] == "block hash mismatch"
    malformed = forged | {"gasUsed": "many"}
    assert world.call("engine_newPayloadV4", malformed, [], root, [])["status"] == "INVALID"
    assert world.call("eth_getBlockByHash", world.hashes[1], True) is None
    assert "engine_newPayloadV4" in world.call("engine_exchangeCapabilities", [])


def test_a_complete_engine_has_all_blocks(course: CourseFiles) -> None:
    engine = Engine(course, lambda: None, lambda text: None, lambda: None, complete=True)
    for name, number in (("0x0", 0), (hex(17), 17), ("latest", 40)):
        body = orjson.dumps({"id": 1, "method": "eth_getBlockByNumber", "params": [name, False]})
        found = orjson.loads(b"".join(engine.rpc.respond(b"/", b"", body).parts))["result"]
        assert (found["hash"], int(found["number"], 16)) == (course.facts.l2_hashes[number], number)
