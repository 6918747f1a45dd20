"""The execution engine of a race.

It executes nothing, has every block of the course ready, and compares the attributes that it is asked to build with
those of the course, field by field."""

from collections.abc import Callable
from typing import Any

import orjson

from rollup_node.stages.protocol.engine_json import (
    PayloadError,
    attributes_from_json,
    envelope_to_json,
    payload_from_json,
)
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.payloads import payload_block_hash
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.l1_server import NULL, Method, RpcMethods
from rollup_node.tools.bench.race.l2_blocks import block_json
from rollup_node.tools.bench.signed_blocks import sealed

_SYNCING = b'{"payloadStatus":{"status":"SYNCING","latestValidHash":null,"validationError":null},"payloadId":null}'
_NEW_PAYLOAD_SYNCING = b'{"status":"SYNCING","latestValidHash":null,"validationError":null}'


class CourseAttributes:
    """The attributes from which the blocks of a course are built."""

    def __init__(self, course: CourseFiles) -> None:
        self._attributes = [
            orjson.loads(course.body(f"l2/{number}/attributes")) for number in range(1, len(course.facts.l2_hashes))
        ]

    def difference(self, parent: int | None, attributes: dict[str, Any]) -> str | None:
        """Return how attributes differ from those of the course, None where they do not.

        `parent` is the number of the course's block on which they build, None for any other block."""
        if parent is None or parent >= len(self._attributes):
            return "not on a block of the course"
        wanted = self._attributes[parent]
        if wanted == attributes:
            return None
        fields = sorted(key for key in {*wanted, *attributes} if wanted.get(key) != attributes.get(key))
        return f"block {parent + 1} has other {', '.join(fields)}"


class Engine:
    """The Engine API over the course.

    `on_attributes` is called for the first attributes, `on_mismatch` for each that are not the course's, with the
    fields that differ, `on_safe` when the course's last block becomes safe. A `complete` one has all of the course's
    blocks from the start."""

    def __init__(
        self,
        course: CourseFiles,
        on_attributes: Callable[[], None],
        on_mismatch: Callable[[str], None],
        on_safe: Callable[[], None],
        complete: bool = False,
    ) -> None:
        self._course, facts = course, course.facts
        self._on_attributes, self._on_mismatch, self._on_safe = on_attributes, on_mismatch, on_safe
        self._hashes = facts.l2_hashes
        self._expected = {name: number for number, name in enumerate(facts.l2_hashes)}
        self._attributes = CourseAttributes(course)
        self._numbers = {facts.l2_hashes[0]: 0}
        self._parents: dict[str, str] = {}
        self._labels = dict.fromkeys(("latest", "pending", "safe", "finalized"), facts.l2_hashes[0])
        if complete:
            self._numbers = dict(self._expected)
            self._parents = dict(zip(facts.l2_hashes[1:], facts.l2_hashes, strict=False))
            self._labels["latest"] = facts.l2_hashes[-1]
        self._others: dict[str, tuple[bytes, bytes]] = {}
        self._begun = self._done = False
        chain_id = orjson.dumps(hex(course.config.l2_chain_id))
        methods: dict[str, Method] = {
            "eth_chainId": lambda _: chain_id,
            "eth_syncing": lambda _: b"false",
            "eth_blockNumber": lambda _: orjson.dumps(hex(self._numbers[self._labels["latest"]])),
            "web3_clientVersion": lambda _: b'"course"',
            "eth_getBlockByNumber": lambda params: self._block(self._named(params[0]), params[1]),
            "eth_getBlockByHash": lambda params: self._block(params[0], params[1]),
        }
        for version in (1, 2, 3):
            methods[f"engine_forkchoiceUpdatedV{version}"] = self._forkchoice
        for version in (1, 2, 3, 4, 5):
            methods[f"engine_getPayloadV{version}"] = self._payload
        for version in (1, 2, 3, 4):
            methods[f"engine_newPayloadV{version}"] = self._new_payload
        names = orjson.dumps([name for name in methods if name.startswith("engine_")])
        methods["engine_exchangeCapabilities"] = lambda _: names
        self.rpc = RpcMethods(methods)

    # --- engine ----------------------------------------------------------------------------------------------------

    def _forkchoice(self, params: list[Any]) -> bytes:
        state, attributes = params[0], params[1] if len(params) > 1 else None
        head = state["headBlockHash"]
        number = self._numbers.get(head)
        if number is None:
            return _SYNCING
        self._choose(head, state)
        if attributes is None:
            payload_id = NULL
        else:
            if not self._begun:
                self._begun = True
                self._on_attributes()
            payload_id = b'"' + self._begin(head, number, attributes).encode() + b'"'
        answer = b'{"payloadStatus":{"status":"VALID","latestValidHash":"%s","validationError":null},"payloadId":%s}'
        return answer % (head.encode(), payload_id)

    def _choose(self, head: str, state: dict[str, str]) -> None:
        self._labels["latest"] = self._labels["pending"] = head
        for label in ("safe", "finalized"):
            if state[f"{label}BlockHash"] in self._numbers:
                self._labels[label] = state[f"{label}BlockHash"]
        if self._labels["safe"] == self._hashes[-1] and not self._done:
            self._done = True
            self._on_safe()

    def _begin(self, head: str, number: int, attributes: dict[str, Any]) -> str:
        """Return the id of a payload: the number of a block of the course, or the hash of another's beginning."""
        difference = self._attributes.difference(number if head == self._hashes[number] else None, attributes)
        if difference is None:
            return f"0x{number + 1:016x}"
        self._on_mismatch(difference)
        payload = sealed(self._course.config, BlockId(number, from_hex(head)), attributes_from_json(attributes), ())
        name = to_hex(payload.block_hash)
        self._others[name] = (orjson.dumps(envelope_to_json(payload)), block_json(payload))
        return name[:18]

    def _payload(self, params: list[Any]) -> bytes:
        number = int(params[0], 16)
        if number < len(self._hashes):
            return self._course.body(f"l2/{number}/envelope")
        return next((envelope for name, (envelope, _) in self._others.items() if name.startswith(params[0])), NULL)

    def _new_payload(self, params: list[Any]) -> bytes:
        payload = params[0]
        name, number = payload["blockHash"], int(payload["blockNumber"], 16)
        if payload["parentHash"] not in self._numbers:
            return _NEW_PAYLOAD_SYNCING
        if self._expected.get(name) != number and name not in self._others and (error := _unsound(params)):
            return orjson.dumps({"status": "INVALID", "latestValidHash": None, "validationError": error})
        self._numbers[name] = number
        self._parents[name] = payload["parentHash"]
        return b'{"status":"VALID","latestValidHash":"%s","validationError":null}' % name.encode()

    # --- blocks ----------------------------------------------------------------------------------------------------

    def _named(self, label: str) -> str | None:
        if label in self._labels:
            return self._labels[label]
        number = 0 if label == "earliest" else int(label, 16)
        name: str | None = self._labels["latest"]
        while name is not None and name not in self._expected and self._numbers[name] > number:
            name = self._parents.get(name)
        if name is None or self._numbers[name] < number:
            return None
        return self._hashes[number] if name in self._expected else name

    def _block(self, name: str | None, full: bool) -> bytes:
        number = self._numbers.get(name or "")
        if name is None or number is None:
            return NULL
        other = self._others.get(name)
        body = other[1] if other else self._course.body(f"l2/{number}/block")
        if full:
            return body
        block = orjson.loads(body)
        return orjson.dumps({**block, "transactions": [item["hash"] for item in block["transactions"]]})


def _unsound(params: list[Any]) -> str | None:
    """Return what is wrong with a payload that this engine has not made."""
    try:
        payload = payload_from_json(params[0], from_hex(params[2]) if len(params) > 2 else None)
    except PayloadError as error:
        return str(error)
    return None if payload_block_hash(payload) == payload.block_hash else "block hash mismatch"
