"""Limits of the server of blocks: rates, turns, and the numbers it serves."""

import pytest

from rollup_node.stages.p2p.reqresp.payload_by_number import ResultCode
from rollup_node.stages.p2p.reqresp.server_limits import (
    GLOBAL_BURST,
    GLOBAL_RATE,
    MAX_WAIT,
    RequestTurns,
    check_number,
)
from tests.support.p2p.blocks import BLOCK_TIME, GENESIS_TIME, chain_config

A = b"a"


@pytest.mark.fault("F49")
def test_a_peer_waits_after_its_burst_and_is_rejected_after_twenty_seconds() -> None:
    turns = RequestTurns()
    requests = [turns.add(A, 0.0) for _ in range(110)]
    waits = [None if request is None else request.due for request in requests]
    assert waits[:15] == [0.0] * 15 and waits[15] == pytest.approx(0.25)
    assert waits[94] == pytest.approx(MAX_WAIT) and waits[95] is None and waits[-1] is None
    assert len(turns.take_admitted(0.0)) == 15 and turns.delay(0.0) == pytest.approx(0.25)
    assert len(turns.take_admitted(5.0)) == 20
    late = turns.add(A, 5.0)
    assert late is not None and late.due == pytest.approx(20.25), "rejected requests are not counted"


def test_all_peers_share_a_limit() -> None:
    turns = RequestTurns()
    for number in range(50):
        assert turns.add(bytes([number]), 0.0) is not None
    assert len(turns.take_admitted(0.0)) == GLOBAL_BURST
    assert turns.delay(0.0) == pytest.approx(1 / GLOBAL_RATE)
    assert len(turns.take_admitted(0.1)) == 2


def test_a_peer_is_served_within_a_round_however_many_requests_others_have_waiting() -> None:
    turns = RequestTurns()
    crowd = [bytes([number]) for number in range(60)]
    for _ in range(15):
        for peer in crowd:
            turns.add(peer, 0.0)
    turns.take_admitted(0.0)
    own = turns.add(A, 0.0)
    assert own is not None
    served_at, now = None, 0.0
    while served_at is None:
        now += 0.05
        served_at = now if own in turns.take_admitted(now) else None
    assert served_at <= len(crowd) / GLOBAL_RATE + 0.1, "before, 860 requests were ahead: more than 20 seconds"


def test_numbers_from_genesis_to_now() -> None:
    config = chain_config()
    now = GENESIS_TIME + 10 * BLOCK_TIME + 1.5
    assert [check_number(config, number, now) for number in (0, 10)] == [ResultCode.OK] * 2
    for number in (11, 1 << 63, None):
        assert check_number(config, number, now) is ResultCode.INVALID_REQUEST
    assert check_number(config, 0, GENESIS_TIME - 1.0) is ResultCode.INVALID_REQUEST
