"""Rates, recent drops and waits. Progress lines from statuses and times [LOG7 to LOG10]."""

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.messages.base import EndpointCounts, Problem
from rollup_node.stages.messages.derivation import DerivationStatus, DerivationWaits
from rollup_node.stages.messages.engine import EL_SYNC, EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.messages.log_fields import Scalar, json_fields
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.status.node_status import BlockStatus, HeadsStatus
from rollup_node.stages.rpc.status.progress import (
    DROPS_SECONDS,
    DROPS_STEP,
    KEPT_SECONDS,
    LINE_SECONDS,
    MIN_RATE_SECONDS,
    REQUESTS_SECONDS,
    STEP_SECONDS,
    HeadHistory,
    Line,
    Progress,
    RateWindow,
    RecentDrops,
    RecentRequests,
    RecentWaits,
)
from rollup_node.stages.rpc.status.readiness import HOLD_SECONDS, UnreadyReason
from rollup_node.stages.rpc.status.status_builder import Snapshot, StatusBuilder
from tests.support.rpc.harness import ROLLUP
from tests.support.rpc.node_statuses import UNKNOWN


def test_a_rate_begins_again_after_a_reset() -> None:
    window = RateWindow()
    assert window.rate(0) is None
    for second in range(100):
        window.add(10 * second + (1000 if second < 20 else 2000), second)
    assert window.rate(99) == window.rate(99 + MIN_RATE_SECONDS) == pytest.approx(10)
    assert window.rate(99.1 + MIN_RATE_SECONDS) is None
    window.add(5, 100)
    assert window.rate(100) is None
    window.add(15, 105)
    assert window.rate(105) == 2


def test_requests_for_each_l1_block() -> None:
    requests = RecentRequests()
    assert requests.per_block() is None
    requests.add(100, 7, 0.0)
    assert requests.per_block() is None
    requests.add(108, 11, 1.0)
    assert requests.per_block() == 2.0
    requests.add(112, 11, 2.0)
    assert requests.per_block() == 3.0, "no block more"
    for step in range(100):
        requests.add(200 + 30 * step, 20 + 10 * step, 10.0 * step + 20)
    assert requests.per_block() == 3.0
    # The l1 process was restarted.
    requests.add(5, 1011, REQUESTS_SECONDS + 2000)
    assert requests.per_block() is None
    requests.add(12, 1013, REQUESTS_SECONDS + 2001)
    assert requests.per_block() == 3.5


def test_drops_of_the_last_hour() -> None:
    drops = RecentDrops()
    drops.add(100, 0)
    assert drops.recent(0) == 0
    drops.add(103, 10)
    drops.add(104, 20)
    drops.add(2, 200)
    assert drops.recent(200) == 6
    drops.add(5000, 300)
    drops.add(5001, 400)
    assert [drops.recent(now) for now in (3700, 3850, 3950, 4100)] == [5001, 4999, 1, 0]
    drops.add(5003, 5000)
    drops.add(5010, 5000 + DROPS_STEP)
    assert drops.recent(5001 + DROPS_SECONDS) == 7, "the next minute counts by itself"


def test_recent_waits_are_those_of_the_last_twelve_seconds() -> None:
    """[LOG17]"""
    waits = RecentWaits()
    assert waits.longest() is None
    waits.add(DerivationWaits(l1=30), 0)
    assert waits.longest() == "l1"
    waits.add(DerivationWaits(l1=30, engine=5), 11.5)
    assert waits.longest() == "l1"
    waits.add(DerivationWaits(l1=30, engine=5), 12.5)
    assert waits.longest() == "engine"
    waits.add(DerivationWaits(l1=30, engine=5), 40)
    assert waits.longest() is None
    waits.add(DerivationWaits(l1=6), 41)
    assert waits.longest() == "l1", "the process was restarted"


STEP = int(STEP_SECONDS)


def test_one_sample_each_step_for_an_hour() -> None:
    """[RPC95] A clock that is set back begins again."""
    history = HeadHistory()
    assert history.columns().time == []
    for second in range(0, 2 * int(KEPT_SECONDS), 5):
        heads = HeadsStatus(BlockStatus(7, "0x", 1, 0.5 + second), None, None)
        history.add(msgspec.structs.replace(UNKNOWN, time=1000.7 + second, heads=heads))
    result = history.columns()
    assert result.step_s == STEP_SECONDS
    assert result.time == [1000 + second for second in range(int(KEPT_SECONDS), 2 * int(KEPT_SECONDS), STEP)]
    assert result.unsafe[0] == KEPT_SECONDS + 0.5
    assert set(result.safe) == set(result.finalized) == set(result.l1_head) == {None}
    for time in (500.0, 505.0, 510.0):
        history.add(msgspec.structs.replace(UNKNOWN, time=time))
    assert history.columns().time == [500, 510]


WALL = 1_000_000.0


def l1_ref(number: int, age: float = 0.0) -> L1BlockRef:
    return L1BlockRef(ZERO_HASH, number, ZERO_HASH, int(WALL - age))


def l2_ref(number: int, age: float = 0.0) -> L2BlockRef:
    return L2BlockRef(ZERO_HASH, number, ZERO_HASH, int(WALL - age), BlockId(0, ZERO_HASH), 0)


def snapshot(
    safe: int, current: int, head: int, *faults: UnreadyReason, idle: bool = False, head_age: float = 1
) -> Snapshot:
    engine = EngineStatus(1, l2_ref(safe + 5), l2_ref(safe, 5), None, None, l2_ref(max(safe - 16, 0)), False, False)
    derivation = DerivationStatus(1, l1_ref(current), idle)
    return Snapshot(L1Heads(l1_ref(head, head_age), None, None), engine, derivation, faults=faults)


def typed(line: Line) -> dict[str, Scalar]:
    """Return the fields as JSON has them [LOG20]."""
    return dict(json_fields(line.fields))


NOTHING = Snapshot(faults=(UnreadyReason("l1", Problem(None, "", "no status received yet")),))
TIP = snapshot(900, 50, 50, idle=True)


class Node:
    """Steps a second each; `lines` are those written, with their times."""

    def __init__(self, derives: bool = True) -> None:
        config = RpcConfig("v1", ROLLUP, derives=derives, ready_l1_lag=12)
        self.builder, self.progress, self.now = StatusBuilder(config), Progress(), 0.0
        self.lines: list[tuple[float, Line]] = []

    def run(self, seen: Snapshot, seconds: int = 1) -> list[Line]:
        """Return the lines of so many seconds."""
        first = len(self.lines)
        for _ in range(seconds):
            line = self.progress.step(self.builder.build(seen, self.now, WALL), self.now)
            if line is not None:
                self.lines.append((self.now, line))
            self.now += 1
        return [line for _, line in self.lines[first:]]


def test_a_sync_from_start_to_tip() -> None:
    node = Node()
    assert node.run(NOTHING, 6) == [Line("starting", {"for": "l1: no status received yet"})]
    # The chain is at 20 blocks a second; its target is block_time 2 from l2_time 5.
    chain = (int(WALL) - 1 - 5) // 2
    assert node.run(snapshot(0, 2, 487)) == [Line("syncing", {"safe": f"0 of ~{chain}", "l1": "2/487"})]
    assert typed(node.lines[-1][1]) == {"safe_block": 0, "target_block": chain, "l1_current": 2, "l1_head": 487}
    for second in range(1, 13):
        lines = node.run(snapshot(20 * second, 2 + second, 487))
    rest = {"speed": "20.0 blocks/s", "eta": duration((chain - 240) / 19.5), "l1": "14/487"}
    assert lines == [Line("syncing", {"safe": f"240 of ~{chain}", **rest})]
    numbers = {"blocks_per_s": 20.0, "eta_s": int((chain - 240) / 19.5), "l1_current": 14, "l1_head": 487}
    assert typed(lines[-1]) == {"safe_block": 240, "target_block": chain, **numbers}
    done = snapshot(2400, 487, 487, idle=True)
    caught_up, synced = node.run(done, 18)
    assert caught_up == Line("caught up", {"took": "13s", "blocks": 2400, "mean": "185 blocks/s"})
    assert synced == Line(
        "synced", {"unsafe": "2405 (0.0 s)", "safe": "2400 (5.0 s)", "finalized": "2384", "l1": "487 (1.0 s)"}
    )


@pytest.mark.condition("C4")
def test_a_sync_says_what_limits_it_and_how_many_requests_an_l1_block_takes() -> None:
    """[LOG17]"""
    node = Node()
    node.run(NOTHING, 6)
    counts = EndpointCounts("l1", "a", True, 0, 0, 0, None, False, "", 0, 0)
    lines = []
    for step in range(3):
        seen = snapshot(40 * step, 2 + 20 * step, 487)
        endpoints = {"l1": (msgspec.structs.replace(counts, requests=62 * step),)}
        derivation = DerivationStatus(1, l1_ref(2 + 20 * step), False, waits=DerivationWaits(engine=5 * step))
        lines += node.run(seen._replace(endpoints=endpoints, derivation=derivation), 12)
    assert [line.fields.get("l1_req_per_block") for line in lines] == [None, 3.1, 3.1]
    assert [line.fields.get("limited_by") for line in lines] == [None, "engine", "engine"]


def test_a_short_sync_is_not_announced() -> None:
    """Each start begins with one."""
    node = Node()
    node.run(NOTHING, 6)
    node.run(snapshot(0, 2, 487), 10)
    messages = [line.message for line in node.run(snapshot(40, 487, 487), 30)]
    assert messages[-1] == "synced" and "caught up" not in messages


AWAY = UnreadyReason("blobs", Problem(None, "", "away"))
SYNCS = UnreadyReason("engine", Problem(None, EL_SYNC, "the execution engine syncs to block 77"))


@pytest.mark.parametrize(
    ("faults", "derives", "line"),
    [
        ((SYNCS, AWAY), True, Line("EL sync", {"for": f"engine: {SYNCS.problem}", "others": 1})),
        ((AWAY,), True, Line("waiting", {"for": "blobs: away", "safe": "8", "l1": "1/9"})),
        ((), False, Line("following", {})),
    ],
)
def test_each_other_state(faults: tuple[UnreadyReason, ...], derives: bool, line: Line) -> None:
    node = Node(derives)
    node.run(TIP, 6)
    node.run(snapshot(8, 1, 9, *faults), 7)
    result = node.lines[-1][1]
    assert result.message == line.message
    assert line.fields.items() <= result.fields.items()


def test_a_line_says_what_is_waited_for_or_is_not_written() -> None:
    node = Node()
    node.run(TIP, 6)
    away = snapshot(8, 1, 9, AWAY)
    for seconds in range(12, 24):
        for line in (*node.run(away, seconds), *node.run(TIP, 6)):
            assert line.message == "synced" or line.fields["for"] == "blobs: away"
    assert node.lines[-1][1].message == "synced"


def test_what_is_not_known_is_left_out() -> None:
    node = Node()
    searching = EngineStatus(1, None, None, None, None, None, False, False)
    node.run(TIP._replace(engine=searching), 20)
    assert node.lines[-1][1] == Line("synced", {"l1": "50 (1.0 s)"})
    node = Node()
    (line,) = node.run(TIP._replace(peers=PeerStatus(22, 8), drops=7))
    assert (line.fields["peers"], line.fields["drops_1h"]) == (22, 0)
    unknown = "derivation: the L1 block that it reads is not known yet"
    assert Node().run(NOTHING._replace(faults=())) == [Line("starting", {"for": unknown})]


@pytest.mark.condition("C4")
def test_an_eta_needs_a_chain_that_is_caught_up_with() -> None:
    """Half a block a second is as fast as the chain grows."""
    node = Node()
    for second in range(30):
        node.run(snapshot(second // 2, 1, 100))
    assert node.lines[-1][1].fields["speed"] == "0.5 blocks/s"
    assert "eta" not in node.lines[-1][1].fields


FAULTS = st.sampled_from(((), (), (AWAY,), (SYNCS,)))
SEEN = st.builds(
    lambda safe, current, head, idle, faults: snapshot(safe, current, head, *faults, idle=idle),
    *(st.integers(0, 2_000_000), st.integers(0, 200), st.integers(0, 200), st.booleans(), FAULTS),
) | st.just(NOTHING)


@settings(max_examples=30)
@given(st.lists(st.tuples(SEEN, st.integers(1, 30)), max_size=10))
def test_lines_are_bounded_and_no_eta_is_negative(seen: list[tuple[Snapshot, int]]) -> None:
    assert 86_400 / LINE_SECONDS < 0.92 * 8000, "lines of a day at the tip; the rest is for other processes"
    node = Node()
    for one, seconds in seen:
        node.run(one, seconds)
    messages = [line.message for _, line in node.lines]
    assert len(messages) <= 1 + node.now / LINE_SECONDS + node.now / HOLD_SECONDS
    changes = sum(first != second for first, second in itertools.pairwise(messages))
    # `caught up` stands for the change to `synced`, and makes another one of the first `synced`.
    assert changes - messages.count("caught up") <= node.now / HOLD_SECONDS
    assert all("-" not in str(line.fields.get("eta")) for _, line in node.lines)
    assert all(msgspec.json.encode(typed(line)) for _, line in node.lines)
