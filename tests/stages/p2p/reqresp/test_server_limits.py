"""Limits of the server of blocks: rates, and the numbers it serves."""

import pytest

from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from rollup_node.stages.p2p.reqresp.server_limits import ServerLimits
from tests.support.p2p_blocks import BLOCK_TIME, GENESIS_TIME, chain_config


def test_a_peer_waits_after_its_burst_and_is_rejected_after_twenty_seconds() -> None:
    limits = ServerLimits(chain_config())
    waits = [limits.admit(b"a", 0.0) for _ in range(110)]
    assert waits[:15] == [0.0] * 15 and waits[15] == pytest.approx(0.25)
    assert waits[94] == pytest.approx(20.0) and waits[95] is None and waits[-1] is None
    assert limits.admit(b"a", 5.0) == pytest.approx(15.25), "rejected requests are not counted"


def test_all_peers_share_a_limit() -> None:
    limits = ServerLimits(chain_config())
    waits = [limits.admit(bytes([number]), 0.0) for number in range(42)]
    assert waits[:40] == [0.0] * 40 and waits[41] == pytest.approx(0.1)


def test_numbers_from_genesis_to_now() -> None:
    limits = ServerLimits(chain_config())
    now = GENESIS_TIME + 10 * BLOCK_TIME + 1.5
    assert [limits.check_number(number, now) for number in (0, 10)] == [ResultCode.OK] * 2
    for number in (11, 1 << 63, None):
        assert limits.check_number(number, now) is ResultCode.INVALID_REQUEST
    assert limits.check_number(0, GENESIS_TIME - 1.0) is ResultCode.INVALID_REQUEST
