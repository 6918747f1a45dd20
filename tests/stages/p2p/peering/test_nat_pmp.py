"""NAT-PMP packets, by the layouts of RFC 6886."""

import ipaddress

import pytest

from rollup_node.stages.p2p.peering.nat_pmp import (
    EXTERNAL_ADDRESS_REQUEST,
    NatPmpError,
    NatPmpMapping,
    NatPmpResultError,
    TransportProtocol,
    mapping_request,
    parse_external_address,
    parse_mapping,
)


def test_requests() -> None:
    assert EXTERNAL_ADDRESS_REQUEST.hex() == "0000"
    assert mapping_request(TransportProtocol.UDP, 9222, 9223, 7200).hex() == "00010000" + "2406" + "2407" + "00001c20"
    assert mapping_request(TransportProtocol.TCP, 9222, 0, 0).hex() == "00020000" + "2406" + "0000" + "00000000"


def test_responses() -> None:
    assert parse_external_address(bytes.fromhex("00800000" + "00000064" + "08080404")) == ipaddress.ip_address(
        "8.8.4.4"
    )
    response = bytes.fromhex("00820000" + "00000064" + "2406" + "2710" + "00000e10")
    assert parse_mapping(response, TransportProtocol.TCP, 9222) == NatPmpMapping(10000, 3600)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ("", "not a response"),
        ("0080", "not a response"),
        ("008200", "not a response"),
        ("01800000" + "00" * 12, "not a response"),
        ("00810000" + "00000064" + "2406" + "2710" + "00000e10", "not a response"),
        ("00820000" + "00000064" + "2407" + "2710" + "00000e10", "port 9223"),
        ("00820000" + "00000064", "8 bytes"),
    ],
)
def test_unrelated_responses_are_rejected(response: str, problem: str) -> None:
    with pytest.raises(NatPmpError, match=problem):
        parse_mapping(bytes.fromhex(response), TransportProtocol.TCP, 9222)


@pytest.mark.parametrize(("code", "problem"), [(2, "not authorized"), (4, "resources"), (77, "code 77")])
def test_error_responses(code: int, problem: str) -> None:
    with pytest.raises(NatPmpResultError, match=problem):
        parse_external_address(bytes((0, 128, 0, code)) + bytes(8))
