"""The sync protocol payload_by_number: requests and responses as bytes [SYN1 to SYN5].

A response is a result code and, on success, a version and the block in framed snappy: the SSZ payload for version 0,
the parent beacon root before it for version 1. The SSZ version follows from the number requested."""

from enum import IntEnum
from typing import NamedTuple

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.block_message import SszError
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload

REQUEST_SIZE = 8
MAX_RESPONSE = snappy.MAX_BYTES
OPEN_SECONDS, READ_SECONDS, WRITE_SECONDS = 5.0, 10.0, 10.0
_HEADER_SIZE = 5
_MIN_TRANSACTION_BYTES = 40
_PLAIN, _WITH_BEACON_ROOT = 0, 1


class ResultCode(IntEnum):
    """The first byte of a response [SYN3]."""

    OK = 0
    NOT_FOUND = 1
    INVALID_REQUEST = 2
    UNKNOWN_ERROR = 3


FAILURE_CODE = 5
"""In place of a result code: no valid response came."""


class RequestOutcome(NamedTuple):
    """The result code, possibly an unknown one; with OK the block, whose hash is claimed; the `error` of a failure."""

    code: int
    payload: ExecutionPayload | None = None
    error: str = ""


def request_failed(error: str) -> RequestOutcome:
    return RequestOutcome(FAILURE_CODE, error=error)


def protocols(chain_id: int) -> tuple[str, str]:
    """Return the protocol ids: op-node's, and with the slash at its end that the specification and kona have [SYN1]."""
    name = f"/opstack/req/payload_by_number/{chain_id}/0"
    return name, f"{name}/"


def encode_request(number: int) -> bytes:
    return number.to_bytes(REQUEST_SIZE, "little")


def decode_request(data: bytes) -> int | None:
    """Return the number requested; None for a request of another size."""
    return int.from_bytes(data, "little") if len(data) == REQUEST_SIZE else None


def encode_block(config: RollupConfig, payload: ExecutionPayload) -> bytes:
    """Encode the response with a block. Raises SszError when it lacks a field of the fork of its time."""
    version = block_message.version_at(config, payload.timestamp)
    part = block_message.encode_signed_part(payload, version)
    kind = _WITH_BEACON_ROOT if block_message.has_beacon_root(version) else _PLAIN
    return bytes([ResultCode.OK]) + kind.to_bytes(4, "little") + snappy.compress_framed(part)


def decode_response(config: RollupConfig, number: int, data: bytes) -> RequestOutcome:
    """Decode the whole response to a request for a number; its hash is checked by the quarantine."""
    if not data:
        return request_failed("the response is empty")
    if data[0] != ResultCode.OK:
        return RequestOutcome(data[0])
    if len(data) < _HEADER_SIZE:
        return request_failed("the response ends before the version")
    kind = int.from_bytes(data[1:_HEADER_SIZE], "little")
    version = block_message.version_at(config, config.timestamp_of(number))
    if kind != (_WITH_BEACON_ROOT if block_message.has_beacon_root(version) else _PLAIN):
        return request_failed(f"response version {kind} for a block of version {version}")
    content = snappy.decompress_framed(data[_HEADER_SIZE:])
    if isinstance(content, SnappyFailure):
        return request_failed(content.value)
    return _decode_payload(content, version, number)


def _decode_payload(content: bytes, version: int, number: int) -> RequestOutcome:
    try:
        read = block_message.decode_signed_part(content, version)
    except SszError as error:
        return request_failed(str(error))
    payload = read.payload
    if payload.block_number != number:
        return request_failed(f"block {payload.block_number} in place of {number}")
    if read.withdrawal_count:
        return request_failed(f"{read.withdrawal_count} withdrawals")
    if sum(map(len, payload.transactions)) < _MIN_TRANSACTION_BYTES * len(payload.transactions):
        return request_failed(f"{len(payload.transactions)} transactions too small to be any")
    return RequestOutcome(ResultCode.OK, payload)
