"""The status of the node from what its processes publish."""

import msgspec
import pytest

from rollup_node.stages.messages.base import EndpointCounts, Problem, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus, DerivationWaits, DropCount, DropEffect
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads, L1Proof
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.status.node_status import NodeStatus, ProblemStatus, ProcessStatus, ProofStatus, State
from rollup_node.stages.rpc.status.readiness import UnreadyReason
from rollup_node.stages.rpc.status.status_builder import (
    SPECS,
    Snapshot,
    StatusBuilder,
    active_fork,
    next_fork,
    rule_link,
)
from rollup_node.tools.importers.drop_reasons import REASONS
from tests.support.rpc.harness import ROLLUP

NOTHING = Snapshot(None, None, None, None, None, ())
PLANNED = msgspec.structs.replace(ROLLUP, fork_times={"regolith": 0, "canyon": 5, "delta": 1500, "ecotone": 2500})


def l1(number: int) -> L1BlockRef:
    return L1BlockRef(b"\x01" * 32, number, bytes(32), 12 * number)


def l2(number: int, origin: int) -> L2BlockRef:
    return L2BlockRef(b"\x02" * 32, number, bytes(32), 5 + 2 * number, BlockId(origin, b"\x01" * 32), 0)


def config(l1_lag: int = 0, network: str = "test-net", derives: bool = True) -> RpcConfig:
    return RpcConfig("v1.2.3", PLANNED, network=network, derives=derives, ready_l1_lag=l1_lag)


def seen(current: int, head: int, *faults: UnreadyReason) -> Snapshot:
    engine = EngineStatus(1, l2(510, 80), l2(480, 75), None, None, l2(400, 60), True, False)
    derivation = DerivationStatus(1, l1(current), False, waits=DerivationWaits(blobs=4, engine=1))
    return Snapshot(L1Heads(l1(head), l1(head - 5), None), engine, derivation, PeerStatus(9, 4), 3, faults)


def test_what_is_not_known_is_null() -> None:
    """[RPC94] Never zero."""
    result = msgspec.to_builtins(StatusBuilder(config(network="")).build(NOTHING, 0.0, 1000.0))
    nulls = ("uptime_s", "sequencing_window", "sequencer", "peers", "drops_1h", "processes", "endpoints", "drops")
    assert {name: result[name] for name in nulls} == dict.fromkeys(nulls)
    assert set(result["heads"].values()) == set(result["l1"].values()) == set(result["progress"].values()) == {None}
    assert result["chain"]["network"] is None
    assert (result["state"], result["problems"]) == ("starting", [])


def test_a_bundle_is_in_doubt_where_the_node_makes_blocks() -> None:
    """[UPG22] A node that follows another one and does not sequence takes the blocks as they are."""
    crossing = msgspec.structs.replace(ROLLUP, fork_times={"lagoon": 1500})
    engine = EngineStatus(1, l2(510, 80), l2(480, 75), None, None, l2(400, 60), False, False)
    sequencing = msgspec.structs.replace(engine, sequencer_enabled=True)
    for derives, status, expected in ((1, None, 1), (1, engine, 1), (0, None, 0), (0, engine, 0), (0, sequencing, 1)):
        builder = StatusBuilder(RpcConfig("v1", crossing, derives=bool(derives)))
        assert len(builder.build(NOTHING._replace(engine=status), 0.0, 1000.0).warnings) == expected


def test_a_syncing_node() -> None:
    """Its whole status, with the JSON that clients see."""
    process = ProcessStatus("l1", 77, 2, 1, 5.0, True, 0.1, 0.2, 1.5, 1 << 20)
    builder = StatusBuilder(config(12))
    for second in range(6):
        now = seen(40 + second, 100)
        assert now.engine is not None
        engine = msgspec.structs.replace(now.engine, safe=l2(430 + 10 * second, 45))
        status = builder.build(now._replace(engine=engine, processes=[process], uptime=9.0), second, 1200.0 + second)
    assert msgspec.json.decode(msgspec.json.encode(status), type=NodeStatus) == status
    assert msgspec.to_builtins(status) == {
        "version": "v1.2.3",
        "time": 1205.0,
        "uptime_s": 9.0,
        "chain": {
            "network": "test-net",
            "l1_chain_id": 900,
            "l2_chain_id": 901,
            "block_time_s": 2,
            "fork": "canyon",
            "next_fork": {"name": "delta", "timestamp": 1500, "in_s": 295},
        },
        "state": "syncing",
        "state_age_s": 5.0,
        "sentence": "syncing: 11m0s behind, about 12s left, limited by blobs",
        "ready": False,
        "reasons": ["derivation: BEHIND: 55 L1 blocks behind, at 45 of 100 (11m0s); the limit is 12"],
        "heads": {
            "unsafe": {"number": 510, "hash": "0x" + 32 * "02", "timestamp": 1025, "age_s": 180.0},
            "safe": {"number": 480, "hash": "0x" + 32 * "02", "timestamp": 965, "age_s": 240.0},
            "finalized": {"number": 400, "hash": "0x" + 32 * "02", "timestamp": 805, "age_s": 400.0},
        },
        "l1": {
            "current": {"number": 45, "hash": "0x" + 32 * "01", "timestamp": 540, "age_s": 665.0},
            "head": {"number": 100, "hash": "0x" + 32 * "01", "timestamp": 1200, "age_s": 5.0},
            "safe": {"number": 95, "hash": "0x" + 32 * "01", "timestamp": 1140, "age_s": 65.0},
            "finalized": None,
            "lag_blocks": 55,
            "lag_s": 660,
            "proof": None,
        },
        "progress": {
            "target_block": 597,
            "blocks_per_s": 10.0,
            "eta_s": 12,
            "limited_by": "blobs",
            "waits_s": {"l1": 0, "blobs": 4, "compute": 0, "engine": 1, "derivation": 0},
        },
        "sequencing_window": {"size_blocks": 20, "used_blocks": 0, "left_blocks": 20},
        "sequencer": {"enabled": True, "active": False},
        "peers": {"connected": 9, "mesh": 4},
        "drops_1h": 0,
        "problems": [],
        "processes": [msgspec.to_builtins(process)],
        "endpoints": None,
        "drops": [],
        "l1_req_per_block": None,
        "compute_tasks": None,
        "warnings": [],
    }


def counts(kind: str, requests: int, **changes: object) -> EndpointCounts:
    plain = EndpointCounts(kind, "host:1", True, requests, 0, 0, 12.5, False, "", 0, 0)
    return msgspec.structs.replace(plain, **changes)


def test_endpoints_and_requests_for_each_l1_block() -> None:
    builder, now = StatusBuilder(config()), seen(40, 100)
    first = [counts("l1", 100), counts("l1", 0, latency_ms=None, in_use=False)]
    builder.build(now._replace(endpoints={"l1": first}), 0.0, 1200.0)
    throttled = {"throttled": 1, "throttled_at": 1190, "error": "HTTP status 429", "error_at": 1195}
    busy = counts("l1", 130, errors=2, failing=True, **throttled)
    away = counts("beacon", 9, errors=1, failing=True, error="gone", error_at=1195)
    later = seen(50, 100)._replace(endpoints={"l1": [busy, first[1]], "blobs": [away]})
    status = builder.build(later, 5.0, 1205.0)
    assert status.endpoints is not None and status.l1_req_per_block == 3.0
    shown = [(item.process, item.kind, item.state, item.error, item.error_age_s) for item in status.endpoints]
    assert shown == [
        ("l1", "l1", "throttled", "HTTP status 429", 10.0),
        ("l1", "l1", "unused", None, None),
        ("blobs", "beacon", "failing", "gone", 10.0),
    ]
    assert status.endpoints[1].verdict is None
    behind = later._replace(endpoints={"l1": [counts("l1", 200, verdict="is behind")]})
    aside = StatusBuilder(config()).build(behind, 5.0, 1205.0).endpoints or []
    assert [(item.state, item.verdict) for item in aside] == [("failing", "is behind")]
    answered = later._replace(endpoints={"l1": [msgspec.structs.replace(busy, failing=False)]})
    states = [builder.build(answered, wall, wall).endpoints for wall in (1249.0, 1250.0)]
    assert [state[0].state for state in states if state] == ["throttled", "ok"]


def test_queues_and_the_sequencing_window() -> None:
    """[RPC94] Those of processes that do not publish one are unknown."""
    listed = [ProcessStatus(name, 77, 1, 0, 5.0, True, 0.1, 0.2, 1.5, 1 << 20) for name in ("l1", "p2p", "engine")]
    queues = {"l1": QueueLength(3, 2), "derivation": QueueLength(9, 5), "engine": QueueLength(0, 0)}
    status = StatusBuilder(config()).build(seen(40, 100)._replace(processes=listed, queues=queues), 0.0, 1200.0)
    assert [process.queue for process in status.processes or ()] == [3, None, 0]
    assert status.compute_tasks == 7
    builder = StatusBuilder(config())
    used = [builder.build(seen(current, 120), 0.0, 1500.0).sequencing_window for current in (75, 90, 120)]
    assert [(item.used_blocks, item.left_blocks) for item in used if item] == [(0, 20), (15, 5), (45, 0)]


def test_drops_by_reason() -> None:
    """Those that were there before this process count for no hour."""
    builder = StatusBuilder(config())
    old = DropCount("CB2", "channel_timed_out", DropEffect.TIMED_OUT, 5, "channel timed out [CB2]", 40)
    new = DropCount("V2", "timestamp_future", DropEffect.DROPPED, 2, "batch dropped [V2]", None)
    builder.build(seen(40, 100)._replace(drops=5, drop_counts=(old,)), 0.0, 1200.0)
    grown = msgspec.structs.replace(old, count=8)
    status = builder.build(seen(40, 100)._replace(drops=10, drop_counts=(grown, new)), 1.0, 1201.0)
    assert status.drops is not None
    assert [(drop.rule, drop.count, drop.count_1h, drop.l1_block) for drop in status.drops] == [
        ("CB2", 8, 3, 40),
        ("V2", 2, 2, None),
    ]
    assert status.drops_1h == 5


@pytest.mark.condition("C10")
def test_the_proof_of_l1() -> None:
    """[RPC94] The ages are those of the slots, and none is below zero where our clock is behind."""
    seen = NOTHING._replace(l1_proof=L1Proof(1200, 14_400, 1120, 13_440, 3, 505, 512, is_linked=True))
    builder = StatusBuilder(config())
    proof = builder.build(seen, 0.0, 14_414.5).l1.proof
    assert proof == ProofStatus(1200, 14.5, 1120, 974.5, 3, 0.9863, linked=True)
    earlier = builder.build(seen, 0.0, 14_300.0).l1.proof
    assert earlier == ProofStatus(1200, 0.0, 1120, 860.0, 3, 0.9863, linked=True)
    late = NOTHING._replace(l1_proof=L1Proof(1200, 14_400, 1120, 13_440, 3, 505, 512, True, is_finality_late=True))
    status = builder.build(late, 0.0, 14_414.5)
    assert status.l1.proof is not None and status.l1.proof.finality_late and not status.warnings


def test_a_problem_is_as_old_as_its_first_status() -> None:
    """Numbers in its text may change meanwhile."""
    builder = StatusBuilder(config(12))
    for second in (0, 2, 4.25):
        faults = (
            UnreadyReason("derivation", Problem(None, "", f"has waited {int(second)} s")),
            UnreadyReason("blobs", Problem(Code.BLOB_EXPIRED, "", f"block {int(second)}")),
        )
        status = builder.build(seen(100, 100, *faults), second, 1200.0 + second)
    derivation, blobs = status.problems
    text = "BLOB-EXPIRED: block 4"
    assert derivation == ProblemStatus("derivation", None, "has waited 4 s", 1200, 4.2)
    expired = Code.BLOB_EXPIRED
    assert blobs == ProblemStatus("blobs", expired.text, text, 1200, 4.2, expired.meaning, expired.remedy)
    assert status.reasons == ["derivation: has waited 4 s", f"blobs: {text}"]
    assert status.sentence == "starting: derivation: has waited 4 s (and 1 more)"
    builder.build(seen(100, 100), 5.0, 1205.0)
    (again,) = builder.build(seen(100, 100, faults[1]), 6.0, 1206.0).problems
    assert again.since == 1206


def test_the_sentence_is_of_what_applies_while_the_state_is_held() -> None:
    """[RPC94]"""
    builder, fault = StatusBuilder(config(12)), UnreadyReason("l1", Problem(Code.L1_UNREACHABLE, "", "gone"))
    said = [
        (status.state, status.sentence)
        for status in (
            builder.build(seen(100, 100, *faults), second, 1200.0 + second)
            for second, faults in ((0.0, ()), (1.0, (fault,)), (6.0, (fault,)), (7.0, ()))
        )
    ]
    in_step, waits = "synced: in step with L1 block 100", "waiting: l1: L1-UNREACHABLE: gone"
    assert said == [
        (State.SYNCED, in_step),
        (State.SYNCED, waits),
        (State.WAITING, waits),
        (State.WAITING, in_step),
    ]


@pytest.mark.option("rpc.ready-l1-lag", "rpc.ready-safe-age", "rpc.ready-unsafe-age")
@pytest.mark.condition("C12")
def test_readiness_follows_the_limits() -> None:
    """[RPC92]"""
    assert StatusBuilder(config(12)).build(seen(88, 100), 0.0, 1205.0).ready
    assert StatusBuilder(config(0)).build(seen(1, 100), 0.0, 1205.0).ready
    assert not StatusBuilder(config(11)).build(seen(88, 100), 0.0, 1205.0).ready
    late = StatusBuilder(msgspec.structs.replace(config(12), ready_safe_age=200, ready_unsafe_age=150)).build(
        seen(100, 100), 0.0, 1205.0
    )
    assert late.state is State.SYNCED
    assert late.sentence.startswith("synced: engine: HEAD-OLD: the unsafe head 510 is 180.0 s old")
    assert len(late.reasons) == 2 and not late.ready


@pytest.mark.sign("SYNC-SLOW", readyz=True)
def test_a_sync_without_an_end_is_a_reason_beside_its_lag() -> None:
    for limit, shown in ((12, 2), (0, 0)):
        builder = StatusBuilder(config(limit))
        for second in range(26):
            status = builder.build(seen(40, 100), float(second), 1200.0 + second)
        assert len(status.reasons) == shown, "without a limit the lag is no reason"
        if shown:
            assert status.reasons[1] == ("derivation: SYNC-SLOW: the safe head moves by 0 blocks/s, the chain by 0.5")


def test_a_node_that_follows_another_has_no_lag_of_derivation() -> None:
    """[FSR9] Its L1 block is that of the source."""
    now = seen(1, 100)
    assert now.engine is not None
    engine = msgspec.structs.replace(now.engine, current_l1=l1(90))
    status = StatusBuilder(config(12, derives=False)).build(now._replace(derivation=None, engine=engine), 0.0, 1205.0)
    assert (status.state, status.ready, status.sentence) == (State.FOLLOWING, True, "following")
    assert status.l1.current is not None and (status.l1.current.number, status.l1.lag_s) == (90, 120)


def test_forks() -> None:
    forks = ["bedrock", "regolith", "canyon", "canyon", "delta", "ecotone"]
    assert [active_fork(PLANNED, time) for time in (-1, 4, 5, 1499, 1500, 9999)] == forks
    fork = next_fork(PLANNED, 1500)
    assert fork is not None and (fork.name, fork.in_s) == ("ecotone", 1000)
    assert next_fork(PLANNED, 2500) is None


def test_the_rule_of_every_reason_has_a_link() -> None:
    """[RPC95] Other ids have none."""
    assert [reason.rule for reason in REASONS if rule_link(reason.rule) is None] == []
    assert rule_link("PX6a") == f"{SPECS}protocol/delta/span-batches.html#batch-queue"
    assert rule_link("LHD2") is None and rule_link("") is None and rule_link("7") is None
