"""Parameters as the node reads them."""

from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

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
