"""The L1 of a race: the execution endpoint and the Beacon API of a prepared course."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import orjson

from rollup_node.stages.protocol.errors import METHOD_NOT_FOUND
from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.http_server import SSZ, Answer, Prepared, gzipped

NULL = b"null"
SAFE_DISTANCE, FINALIZED_DISTANCE = 32, 64
"""Of the labels behind the head."""


class L1Endpoint:
    """The methods that rollup nodes call, with answers in gzip for clients that take it.

    Blocks are counted by what is asked for. The last `fresh` blocks are there only after as many calls of `advance`.
    With `final` the head is finalized."""

    def __init__(self, course: CourseFiles, fresh: int = 0, final: bool = False) -> None:
        self._course, facts = course, course.facts
        self.fresh, self._final = fresh, final
        self._first, self.head = facts.l1_genesis, facts.l1_head - fresh
        self._numbers = {name: self._first + index for index, name in enumerate(facts.l1_hashes)}
        self._proof = facts.signer_proof.encode()
        constants = {
            "eth_chainId": hex(course.config.l1_chain_id),
            "net_version": str(course.config.l1_chain_id),
            "eth_syncing": False,
            "web3_clientVersion": "course",
        }
        methods = {name: _constant(value) for name, value in constants.items()}
        methods |= {
            "eth_blockNumber": lambda _: orjson.dumps(hex(self.head)),
            "eth_getBlockByNumber": lambda params: self._block(self._number(params[0]), params[1]),
            "eth_getBlockByHash": lambda params: self._block(self._numbers.get(params[0]), params[1]),
            "eth_getBlockReceipts": lambda params: self._receipts(params[0]),
            "eth_getProof": lambda _: self._proof,
        }
        self.rpc = RpcMethods(methods, _variant)

    def advance(self) -> None:
        """Make the next block the head."""
        self.head += 1
        self.fresh -= 1

    def _number(self, label: str) -> int | None:
        distances = {"latest": 0, "pending": 0, "safe": SAFE_DISTANCE, "finalized": FINALIZED_DISTANCE}
        if label in distances:
            return max(self._first, self.head - (0 if self._final else distances[label]))
        number = self._first if label == "earliest" else int(label, 16)
        return number if number == 0 or self._first <= number <= self.head else None

    def _block(self, number: int | None, full: bool) -> bytes | Prepared:
        return self._body(number, "full" if full else "hashes")

    def _receipts(self, name: str) -> bytes | Prepared:
        return self._body(self._numbers.get(name) if len(name) == 66 else self._number(name), "receipts")

    def _body(self, number: int | None, kind: str) -> bytes | Prepared:
        return NULL if number is None or number > self.head else self._course.prepared(f"l1/{number}/{kind}")


class BeaconApi:
    """The routes that rollup nodes use; `calls` and `sizes` by route."""

    def __init__(self, course: CourseFiles) -> None:
        self._course, facts = course, course.facts
        self._blobs = {str(slot): hashes for slot, hashes in facts.blobs.items()}
        self._constants = {
            "/eth/v1/node/version": {"version": "course"},
            "/eth/v1/beacon/genesis": {"genesis_time": str(facts.beacon_genesis_time)},
            "/eth/v1/config/spec": {"SECONDS_PER_SLOT": str(facts.slot_seconds)},
        }
        self._contents: dict[str, bytes] = {}
        self.requests = 0
        self.calls: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()

    def respond(self, target: bytes, head: bytes, _body: bytes) -> Answer:
        """Return the answer to a request of one of the routes, blobs in SSZ if the client takes that.

        404 for others."""
        path, _, query = target.decode("ascii", "replace").partition("?")
        path = "/" + path.lstrip("/")
        route, slot = path.rsplit("/", 1) if path not in self._constants else (path, "")
        answer = self._answer(path, route, slot, parse_qs(query), SSZ in head)
        self.requests += 1
        self.calls[route] += 1
        self.sizes[route] += sum(map(len, answer.parts))
        return answer

    def _answer(self, path: str, route: str, slot: str, query: dict[str, list[str]], as_ssz: bool) -> Answer:
        if path in self._constants:
            return Answer([orjson.dumps({"data": self._constants[path]})])
        hashes = self._blobs.get(slot)
        if hashes is None:
            return _not_found()
        if route == "/eth/v1/beacon/blobs":
            wanted = _values(query, "versioned_hashes") or hashes
            names = [name for name in hashes if name in wanted]
            if as_ssz:
                return Answer([self._content(name) for name in names], media=SSZ)
            return self._list([f"blob/{name}" for name in names])
        if route == "/eth/v1/beacon/blob_sidecars":
            indices = _values(query, "indices") or list(map(str, range(len(hashes))))
            return self._list([f"sidecar/{name}" for index, name in enumerate(hashes) if str(index) in indices])
        if route == "/eth/v1/beacon/blinded_blocks":
            return Answer([self._course.body(f"blinded/{slot}")])
        return _not_found()

    def _content(self, name: str) -> bytes:
        if name not in self._contents:
            self._contents[name] = from_hex(orjson.loads(self._course.body(f"blob/{name}")))
        return self._contents[name]

    def _list(self, names: list[str]) -> Answer:
        return Answer([b'{"data":[', b",".join(map(self._course.body, names)), b"]}"])


def _constant(value: Any) -> Any:
    result = orjson.dumps(value)
    return lambda _: result


def _variant(method: str, params: list[Any]) -> str:
    if method not in ("eth_getBlockByNumber", "eth_getBlockByHash"):
        return method
    label = params[0] if not params[0].startswith("0x") else ""
    kind = "full" if params[1] else "header"
    return f"{method} {label} {kind}" if label else f"{method} {kind}"


def _values(query: dict[str, list[str]], name: str) -> list[str]:
    return [part for value in query.get(name, []) for part in value.split(",")]


def _not_found() -> Answer:
    return Answer([b'{"code":404,"message":"not found"}'], 404)


Method = Callable[[list[Any]], bytes | Prepared]
"""Gives the result of a call as JSON."""

Parts = list[bytes | Prepared]


class RpcMethods:
    """A table of methods.

    `requests` are those over HTTP, where a batch is one, `sizes` the bytes of the results by method, as they are
    sent; `variant` gives the name under which a call is counted."""

    def __init__(self, methods: Mapping[str, Method], variant: Callable[[str, list[Any]], str] | None = None) -> None:
        self._methods, self._variant = methods, variant
        self.requests = 0
        self.calls: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()

    def respond(self, _target: bytes, head: bytes, body: bytes) -> Answer:
        """Return the answer to a request, whatever its path.

        In gzip if the client takes it and a result is prepared."""
        self.requests += 1
        try:
            asked = orjson.loads(body)
        except orjson.JSONDecodeError:
            return Answer([b"malformed body"], 400)
        compress = _takes_gzip(head)
        if isinstance(asked, dict):
            return _answer(self._call(asked, compress), compress)
        parts: Parts = [b"["]
        for index, call in enumerate(asked):
            if index:
                parts.append(b",")
            parts += self._call(call, compress)
        parts.append(b"]")
        return _answer(parts, compress)

    def _call(self, call: dict[str, Any], compress: bool) -> Parts:
        method, params = call["method"], call.get("params") or []
        head = b'{"jsonrpc":"2.0","id":' + orjson.dumps(call.get("id"))
        value = self._methods.get(method)
        name = method if self._variant is None else self._variant(method, params)
        self.calls[name] += 1
        if value is None:
            error = {"code": METHOD_NOT_FOUND, "message": f"the method {method} does not exist"}
            return [head, b',"error":', orjson.dumps(error), b"}"]
        result = value(params)
        sent = (result.deflated if compress else result.plain) if isinstance(result, Prepared) else result
        self.sizes[name] += len(sent)
        return [head + b',"result":', result, b"}"]


def _takes_gzip(head: bytes) -> bool:
    """Whether a head in small letters says so."""
    return any(b"gzip" in line for line in head.split(b"\r\n") if line.startswith(b"accept-encoding:"))


def _answer(parts: Parts, compress: bool) -> Answer:
    if compress and any(isinstance(part, Prepared) for part in parts):
        return Answer(gzipped(parts), encoding=b"gzip")
    return Answer([part.plain if isinstance(part, Prepared) else part for part in parts])
