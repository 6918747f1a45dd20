"""NAT-PMP packets, by the layouts of RFC 6886."""

import pytest

from rollup_node.stages.p2p.peering.nat_pmp import (
    NatPmpError,
    TransportProtocol,
    parse_mapping,
)


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
