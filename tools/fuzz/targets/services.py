"""Answers of the services that a node may use, and HTTP itself."""

import asyncio
from collections.abc import Coroutine
from functools import cache
from random import Random
from typing import Any, TypeVar
from zlib import compress

import msgspec

from rollup_node.node.checks.execution import check_chain, offered_methods
from rollup_node.stages.blobs.process.da_client import InputReading
from rollup_node.stages.io.http.connection import (
    BodyEncodingError,
    BodyTooLargeError,
    HttpConnection,
    HttpError,
    decompressed,
)
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.json_answers import decode_answer
from rollup_node.stages.io.http.web_socket import _clock_difference
from rollup_node.stages.p2p.blocks.signing import LocalSigner, SigningError, signing_hash
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.p2p.peering.peer_info import Diagnosis
from rollup_node.stages.p2p.signer.io.remote_signer import RemoteSigner
from rollup_node.stages.protocol.answer_limits import OTHER, SMALL, AnswerLimit
from rollup_node.stages.protocol.commitments import Commitment, keccak_commitment
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.commands.doctor import examine, report_lines
from rollup_node.tools.commands.explain import _line, drops_of
from rollup_node.tools.fuzz.targets.chain_seeds import answer, payload, rollup
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of
from rollup_node.tools.inspect.status_screen import StatusClient, StatusError
from rollup_node.tools.preflight.chain_checks import (
    check_capabilities,
    check_finality,
    check_forks,
    check_head,
    find_blob_block,
    read_block,
    read_safe_head,
)
from rollup_node.tools.status_page.scenes import SCENES, scene

T = TypeVar("T")
SIGNER = LocalSigner(b"\x11" * 32)
CHAIN, HASH = 901, b"\x05" * 32
INPUT = b"the input of a commitment"
MAX_STEPS = 10_000
MAX_BODY = 1 << 20
ENCODINGS = ("", "identity", "gzip", "deflate", "br", "GZIP")


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing but its next turn."""
    for _ in range(MAX_STEPS):
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("the coroutine goes on and on")


class _Answered:
    """Takes the place of a signer's JSON-RPC client: every call is answered with the same bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def call(self, method: str, *params: object, timeout: float) -> Any:
        try:
            return decode_answer(self._data, method, Any, SMALL)
        except MalformedJsonError as error:
            raise EndpointError("signer", str(error)) from None


def signer(data: bytes) -> object:
    """Return the answer of a remote signer: a signature is one of its address, or an error."""
    client = RemoteSigner(SignerConfig("http://127.0.0.1:1", SIGNER.address, tls_enabled=False))
    client._client = _Answered(data)  # type: ignore[assignment]
    try:
        assert len(finished(client.sign_block(CHAIN, HASH))) == 65
    except SigningError:
        assert len(finished(client.version())) <= 500
        return "version"
    return "signature"


def da_input(data: bytes) -> object:
    """Return the body of a DA server's answer, in pieces. The first byte chooses the commitment."""
    keccak = not data or data[0] & 1
    commitment = keccak_commitment(INPUT) if keccak else Commitment(1, b"generic")
    reading = InputReading(commitment, MAX_BODY, bool(keccak))
    for at in range(1, len(data), 7):
        reading.take(data[at : at + 7])
    return type(reading.input("DA server")).__name__


def status(data: bytes) -> object:
    """Return what `rollup-node status` reads of a node."""
    client = StatusClient("http://127.0.0.1:1")

    async def get() -> bytes:
        return data

    client._get = get  # type: ignore[method-assign]
    return type(_loop().run_until_complete(client.fetch())).__name__


def diagnosis(data: bytes) -> object:
    """Return a node's answer to `rollup-node p2p doctor`: findings, or another version; its lines are printable."""
    answer = msgspec.convert(decode_answer(data, "opp2p_diagnosis", Any, OTHER), Diagnosis)
    try:
        findings = examine(answer, None)
    except KeyError:
        return "another version"
    lines = list(report_lines(answer, findings))
    assert all(line.isprintable() for line in lines)
    return min(20, len(lines))


def drops(data: bytes) -> object:
    """Return a node's answer to `rollup-node explain`."""
    try:
        total, result = drops_of(decode_answer(data, "explain_drops", Any, OTHER))
    except (KeyError, TypeError, ValueError) as error:
        return type(error).__name__
    assert all(_line(item).isprintable() for item in result)
    return total > len(result), min(2, len(result))


class _Lines:
    """Takes the place of a JSON-RPC client of `rollup-node check`: each call is answered with the next line."""

    name = "127.0.0.1"

    def __init__(self, data: bytes) -> None:
        self._lines = data.split(b"\n")

    async def call(self, method: str, *params: object) -> Any:
        return await self.call_typed(Any, method, *params)

    async def call_typed(self, shape: Any, method: str, *params: object) -> Any:
        try:
            return decode_answer(await self.call_raw(method), method, shape, SMALL)
        except MalformedJsonError as error:
            raise EndpointError(self.name, str(error)) from None

    async def call_raw(self, method: str, *params: object, limit: AnswerLimit | None = None) -> bytes:
        return self._lines.pop(0) if len(self._lines) > 1 else self._lines[0]


def checked_l1(data: bytes) -> object:
    """Return what `rollup-node check` reads of L1: chain id, genesis, head, finality, and a block with blobs."""
    client: Any = _Lines(data)
    result = finished(check_chain(client, "l1", "L1", 1, BlockId(5, HASH)))
    head = finished(read_block(client, "latest"))
    if head is not None:
        result += [check_head("l1", head), finished(check_finality(client, "l1", head))]
        finished(find_blob_block(client, head.height, -1))
    assert all(item.text.isprintable() for item in result)
    return sorted({item.level.value for item in result})


def checked_engine(data: bytes) -> object:
    """Return what `rollup-node check` reads of the engine: methods, the fork of its head, and the safe head."""
    client: Any = _Lines(data)
    result, offered = finished(offered_methods(client, "engine"))
    if offered is not None:
        result += check_capabilities("engine", offered, rollup(), 1_700_000_000)
    result.append(finished(check_forks(client, "engine", rollup())))
    assert all(item.text.isprintable() for item in result)
    return sorted({item.level.value for item in result}), finished(read_safe_head(client, rollup())) is None


def compressed_body(data: bytes) -> object:
    """Return a body whose encoding the first byte chooses; the limit holds after decompression."""
    encoding = ENCODINGS[data[0] % len(ENCODINGS)] if data else ""
    result = finished(decompressed(bytearray(data[1:]), encoding, MAX_BODY))
    assert len(result) <= MAX_BODY
    return len(result) > 0


def http_response(data: bytes) -> object:
    """Return the bytes that a server sends on a connection, and then its end."""
    return _loop().run_until_complete(_exchange(data))


class _Transport(asyncio.Transport):
    """A connection whose other end takes all that it is sent."""

    is_closed = False

    def write(self, data: Any) -> None:
        """Is sent."""

    def abort(self) -> None:
        """Close it."""
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0


async def _exchange(data: bytes) -> object:
    connection = HttpConnection()
    connection.connection_made(_Transport())
    deadline = asyncio.get_running_loop().time() + 60
    asking = asyncio.ensure_future(connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"", MAX_BODY, deadline))
    await asyncio.sleep(0)
    half = len(data) // 2
    for piece in (data[:half], data[half:]):
        if connection.is_open and piece:
            connection.data_received(piece)
    connection.connection_lost(None)
    result = await asking
    assert len(result.body) <= MAX_BODY * 257 // 256 + 1024
    return result.status // 100


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def date(data: bytes) -> object:
    """Return the Date of a response, of which the difference of the clocks is made."""
    return _clock_difference({"Date": data.decode("latin-1")}, 1.7e9) is None


_SIGNATURE = to_hex(SIGNER._sign(signing_hash(CHAIN, HASH)))
_HTTP = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Encoding: gzip\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 503 x\r\nRetry-After: 5\r\n\r\nbusy",
)
_DATES = (b"Wed, 21 Oct 2015 07:28:00 GMT", b"Sun Nov  6 08:49:37 1994", b"21 Oct 15 07:28 +9999")


_CHECKS = (EndpointError, RpcFailure, HexError)
_BLOCK = {
    "number": "0x9",
    "hash": to_hex(HASH),
    "timestamp": hex(payload().timestamp),
    "blobGasUsed": "0x20000",
    "extraData": "0x00",
}
_WITH_BLOB = {"transactions": [{"blobVersionedHashes": [to_hex(HASH)]}]}
_OF_L1 = ("0x1", _BLOCK, _BLOCK, _BLOCK, _BLOCK, _WITH_BLOB)
_OF_ENGINE = (
    ["engine_forkchoiceUpdatedV3", "engine_getPayloadV4", "engine_newPayloadV4"],
    _BLOCK,
    _BLOCK,
    {"input": to_hex(payload().transactions[0][-178:])},
)
_DISCOVERY: dict[str, object] = {
    **{"record": "enr:", "endpoint": "e", "ip": None, "tcp": 9222, "udp": 9222},
    **{"nodes": dict.fromkeys(("nodes", "live", "ours", "other_chain", "no_chain"), 3), "drops": {"TOO_MANY": 5}},
}
_GOSSIP: dict[str, object] = {
    **{"topic": "/t", "topics": {"/t": 9}, "meshes": {"/t": 6}, "low": 6, "accepted": 5, "accepted_ago": 1.5},
    **{"refused": {"too_old": 3}, "published": 0, "signer": "0x1", "own_signer": "0x2"},
}
_DIAGNOSIS: dict[str, object] = {
    **{"peer": "16U", "chain_id": 10, "listens": ["/ip4/0.0.0.0/tcp/9222"], "is_listening": True, "low": 20},
    **{"high": 30, "inbound": 1, "outbound": 9, "inbound_ever": 3, "observed": {"/ip4/8.8.4.4/tcp/9222": 4}},
    **{"known": 5, "dialable": 4, "static_missing": ["a"], "dial_problems": {"a": "refused"}, "bans": {"b": 5.5}},
    **{"blocked": 1, "departed": [{"peer": "c", "why": "closed", "lasted": 1.5}], "problems": ["x"]},
    **{"discovery": _DISCOVERY, "gossip": _GOSSIP},
}
_DROPS = [{"l1_block": {"number": 5}, "text": "batch dropped"}, {"l1_block": None, "text": "frame"}]


def _status(chance: Random) -> bytes:
    return _statuses()[chance.randrange(len(SCENES))]


@cache
def _statuses() -> list[bytes]:
    return [msgspec.json.encode(scene(name).status) for name in SCENES]


def _input(chance: Random) -> bytes:
    return chance.choice((b"\1" + INPUT, b"\0" + INPUT, b"\1" + chance.randbytes(50)))


def _compressed(chance: Random) -> bytes:
    kind = chance.randrange(len(ENCODINGS))
    size = chance.choice((10, 1000, 1000, 2 * MAX_BODY))
    return bytes((kind,)) + compress(bytes(size), wbits=31 if kind in (2, 5) else 15)


TARGETS = {
    "signer-answer": FuzzTarget(
        "remote signer", signer, one_of([answer(_SIGNATURE), answer("v1")]), (SigningError,), JSON_TOKENS
    ),
    "da-input": FuzzTarget("DA server", da_input, _input, (EndpointError,)),
    "status-json": FuzzTarget("a node", status, _status, (StatusError,), JSON_TOKENS),
    "diagnosis-json": FuzzTarget(
        *("a node", diagnosis, one_of([answer(_DIAGNOSIS)])),
        *((msgspec.ValidationError, RpcFailure, MalformedJsonError), JSON_TOKENS),
    ),
    "drops-json": FuzzTarget(
        *("a node", drops, one_of([answer({"total": 9, "drops": _DROPS})])),
        *((RpcFailure,), JSON_TOKENS),
    ),
    "check-l1": FuzzTarget("L1 endpoint", checked_l1, one_of([b"\n".join(map(answer, _OF_L1))]), _CHECKS, JSON_TOKENS),
    "check-engine": FuzzTarget(
        "execution engine", checked_engine, one_of([b"\n".join(map(answer, _OF_ENGINE))]), _CHECKS, JSON_TOKENS
    ),
    "compressed-body": FuzzTarget("any endpoint", compressed_body, _compressed, (BodyTooLargeError, BodyEncodingError)),
    "http-response": FuzzTarget("any endpoint", http_response, one_of(_HTTP), (HttpError, BodyTooLargeError)),
    "http-date": FuzzTarget("any endpoint", date, one_of(_DATES)),
}
"""The targets by name."""
