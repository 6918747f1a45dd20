"""Results of other shapes are an error that says where, and unknown fields none."""

from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

pytest.importorskip("hexbytes", reason="web3 is not installed: pip install 'rollup-node[client]'")

from hexbytes import HexBytes

from rollup_node.tools.client.results import (
    BlockId,
    DependencySet,
    L2BlockRef,
    ResultError,
    SafeHead,
    SdmStatus,
    convert,
)

HASH = "0x" + "01" * 32
REF = {
    "hash": HASH,
    "number": 7,
    "parentHash": HASH,
    "timestamp": 1700000000,
    "l1origin": {"hash": HASH, "number": 3},
    "sequenceNumber": 2,
}


def test_a_reference_with_a_field_of_a_later_version() -> None:
    from web3.datastructures import AttributeDict

    found = convert(AttributeDict.recursive(REF | {"later": {"field": [1]}}), L2BlockRef)
    assert found == L2BlockRef(
        hash=HexBytes(HASH),
        number=7,
        parent_hash=HexBytes(HASH),
        timestamp=1700000000,
        l1_origin=BlockId(HexBytes(HASH), 3),
        sequence_number=2,
    )


def test_defaults_and_plain_types() -> None:
    assert convert({"dependencies": {"901": {}}}, DependencySet).override_message_expiry_window == 0
    found = {"postExecOptIn": True, "protocolActive": False, "effective": False}
    assert convert(found, SdmStatus) == SdmStatus(True, False, False)
    assert convert(found | {"activationTime": 7}, SdmStatus).activation_time == 7
    assert convert(None, type(None)) is None
    assert convert(True, bool) is True


@pytest.mark.parametrize(
    ("value", "shape", "error"),
    [
        ({**REF, "number": "0x7"}, L2BlockRef, r"Expected `int`, got `str` - at `\$.number`"),
        ({**REF, "hash": 5}, L2BlockRef, "HexBytes from int"),
        ({**REF, "hash": "0xzz"}, L2BlockRef, "unexpected result"),
        ({"l1Block": None, "safeHead": None}, SafeHead, "Expected `object`, got `null`"),
        ("yes", bool, "Expected `bool`"),
        ({}, type(None), "Expected `null`"),
    ],
)
def test_other_shapes(value: Any, shape: Any, error: str) -> None:
    with pytest.raises(ResultError, match=error):
        convert(value, shape)


pytestmark = pytest.mark.skipif(
    find_spec("web3") is None, reason="web3 is not installed: pip install 'rollup-node[client]'"
)


def test_bytes_numbers_addresses_and_networks() -> None:
    from web3 import Web3
    from web3.providers.base import BaseProvider

    from rollup_node.tools.client.modules import Admin, Opp2p, Optimism

    class RecordingProvider(BaseProvider):
        """Answers null, and keeps what was asked."""

        def __init__(self) -> None:
            super().__init__()
            self.asked: list[tuple[str, Any]] = []

        def make_request(self, method: Any, params: Any) -> Any:
            self.asked.append((method, list(params)))
            return {"jsonrpc": "2.0", "id": 1, "result": None}

    provider = RecordingProvider()
    w3 = Web3(provider)
    admin, opp2p = Admin(w3), Opp2p(w3)
    admin.start_sequencer(b"\x01" * 32)
    admin.set_recover_mode(True)
    admin.set_log_level("debug")
    admin.post_unsafe_payload({"executionPayload": {}})
    opp2p.block_addr(ip_address("::1"))
    opp2p.unblock_addr("10.0.0.1")
    opp2p.block_subnet(ip_network("10.0.0.0/8"))
    opp2p.unblock_subnet(ip_network("fe80::/120"))
    with pytest.raises(ValueError, match="unexpected result"):
        Optimism(w3).output_at_block(255)
    assert provider.asked == [
        ("admin_startSequencer", ["0x" + "01" * 32]),
        ("admin_setRecoverMode", [True]),
        ("admin_setLogLevel", ["debug"]),
        ("admin_postUnsafePayload", [{"executionPayload": {}}]),
        ("opp2p_blockAddr", ["::1"]),
        ("opp2p_unblockAddr", ["10.0.0.1"]),
        ("opp2p_blockSubnet", [{"IP": "10.0.0.0", "Mask": "/wAAAA=="}]),
        ("opp2p_unblockSubnet", [{"IP": "fe80::", "Mask": "////////////////////AA=="}]),
        ("optimism_outputAtBlock", ["0xff"]),
    ]
