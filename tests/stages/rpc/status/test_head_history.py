"""The hour of the chart."""

import msgspec

from rollup_node.stages.rpc.status.head_history import KEPT_SECONDS, STEP_SECONDS, HeadHistory
from rollup_node.stages.rpc.status.node_status import BlockStatus, HeadsStatus
from tests.support.rpc.node_statuses import UNKNOWN

STEP = int(STEP_SECONDS)


def test_one_sample_each_step_for_an_hour() -> None:
    """[RPC95]"""
    history = HeadHistory()
    for second in range(0, 2 * int(KEPT_SECONDS), 5):
        heads = HeadsStatus(BlockStatus(7, "0x", 1, 0.5 + second), None, None)
        history.add(msgspec.structs.replace(UNKNOWN, time=1000.7 + second, heads=heads))
    found = history.columns()
    assert found.step_s == STEP_SECONDS
    assert found.time == [1000 + second for second in range(int(KEPT_SECONDS), 2 * int(KEPT_SECONDS), STEP)]
    assert found.unsafe[0] == KEPT_SECONDS + 0.5
    assert set(found.safe) == set(found.finalized) == set(found.l1_head) == {None}


def test_a_clock_that_is_set_back_begins_again() -> None:
    history = HeadHistory()
    assert history.columns().time == []
    for time in (1000.0, 1010.0, 500.0, 505.0, 510.0):
        history.add(msgspec.structs.replace(UNKNOWN, time=time))
    assert history.columns().time == [500, 510]
