"""Requests and responses of the sync protocol."""

import msgspec
import pytest

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.p2p.reqresp.payload_by_number import RequestOutcome, ResultCode
from tests.support.p2p.blocks import LAST_FORK, block, chain_config


def test_requests() -> None:
    assert payload_by_number.encode_request(258) == b"\x02\x01" + bytes(6)
    assert payload_by_number.decode_request(b"\x02\x01" + bytes(6)) == 258
    assert payload_by_number.decode_request(bytes(7)) is None and payload_by_number.decode_request(bytes(9)) is None


def test_both_protocol_ids() -> None:
    assert payload_by_number.protocols(901) == (
        "/opstack/req/payload_by_number/901/0",
        "/opstack/req/payload_by_number/901/0/",
    )


@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_round_trip(version: int) -> None:
    config, payload = chain_config(LAST_FORK[version]), block(version, 5)
    response = payload_by_number.encode_block(config, payload)
    assert response[0] == 0 and response[1:5] == (1 if version >= 3 else 0).to_bytes(4, "little")
    assert response[5:15] == b"\xff\x06\x00\x00sNaPpY"
    assert payload_by_number.decode_response(config, 5, response) == RequestOutcome(ResultCode.OK, payload)
    assert payload_by_number.decode_response(config, 6, response).error


def test_error_responses() -> None:
    config = chain_config()
    for code in (ResultCode.NOT_FOUND, ResultCode.INVALID_REQUEST, ResultCode.UNKNOWN_ERROR):
        assert payload_by_number.decode_response(config, 5, bytes([code]) + b"more") == RequestOutcome(code)
    assert payload_by_number.decode_response(config, 5, b"\xee") == RequestOutcome(0xEE)


def response_of(part: bytes, kind: int = 1) -> bytes:
    return b"\0" + kind.to_bytes(4, "little") + snappy.compress_framed(part)


@pytest.mark.fault("F49")
def test_malformed_responses_fail() -> None:
    config, payload = chain_config(), block(4, 5)
    part = block_message.encode_signed_part(payload, 4)
    good = response_of(part)
    tiny = block(4, 5, transactions=(b"\x02" * 39, b"\x02" * 40))
    bad = [
        b"",
        b"\0\1\0\0",
        response_of(part, kind=0),
        response_of(part, kind=2),
        good[:-1],
        good + b"x",
        response_of(part[:-1]),
        response_of(part[:20]),
        response_of(part + bytes(44)),
        response_of(bytes(snappy.MAX_BYTES + 1)),
        response_of(block_message.encode_signed_part(tiny, 4)),
        response_of(bytes(32) + block_message.encode_ssz(payload, 3)),
    ]
    for item in bad:
        assert payload_by_number.decode_response(config, 5, item).error


def test_the_block_hash_is_not_checked() -> None:
    config = chain_config()
    forged = msgspec.structs.replace(block(4, 5), state_root=bytes(32))
    response = payload_by_number.encode_block(config, forged)
    assert payload_by_number.decode_response(config, 5, response).payload == forged
