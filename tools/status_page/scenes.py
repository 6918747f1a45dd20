"""States of a node that nobody has at hand when they are needed: an hour of each, which ends in the state.

As the real builder makes them of what processes publish."""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from rollup_node.stages.messages.base import EndpointCounts, Problem, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus, DerivationWaits, DropCount, DropEffect
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads, L1Proof
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.status.node_status import NodeStatus, ProcessStatus
from rollup_node.stages.rpc.status.progress import STEP_SECONDS, HeadHistory
from rollup_node.stages.rpc.status.readiness import UnreadyReason
from rollup_node.stages.rpc.status.status_builder import Snapshot, StatusBuilder

NOW = 1_795_434_065
L1_BLOCK, L2_BLOCK, BATCH, EPOCH = 12, 2, 180, 384
"""Seconds between blocks, between the batcher's transactions, and between finalized L1 blocks."""
L1_MERGE, L1_MERGE_TIME, L2_GENESIS = 15_537_394, 1_663_224_179, 1_686_068_903
L1_BEACON_TIME = 1_606_824_023
HOUR = 3600
THROTTLED_SECONDS = 95
ROLES = ("supervisor", "sweeper", "l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc")
WORKERS = 4
CPU = {"l1": 0.021, "blobs": 0.012, "derivation": 0.034, "compute": 0.008, "engine": 0.027, "p2p": 0.061, "rpc": 0.004}
MEMORY = {"l1": 148, "blobs": 171, "derivation": 133, "compute": 96, "engine": 118, "p2p": 126, "rpc": 88}
ROLLUP = RollupConfig(
    genesis=Genesis(
        BlockId(17_422_590, ZERO_HASH),
        BlockId(105_235_063, ZERO_HASH),
        L2_GENESIS,
        SystemConfig(ZERO_ADDRESS, ZERO_HASH, ZERO_HASH, 60_000_000),
    ),
    block_time=L2_BLOCK,
    max_sequencer_drift=600,
    seq_window_size=3600,
    channel_timeout=300,
    l1_chain_id=1,
    l2_chain_id=10,
    fork_times={"regolith": 0, "canyon": 1_704_992_401, "holocene": 1_736_445_601, "isthmus": 1_746_806_401}
    | {"jovian": 1_764_691_201, "karst": NOW + 12 * 86400 + 5 * HOUR},
    batch_inbox=ZERO_ADDRESS,
    deposit_contract=ZERO_ADDRESS,
    l1_system_config=ZERO_ADDRESS,
)

Shape = Callable[[int], Snapshot]
"""What is known so many seconds before the end of the hour."""


class Scene(msgspec.Struct, frozen=True):
    """A state, and the hour before it."""

    name: str
    status: NodeStatus
    history: HeadHistory


def in_step(
    ago: int = 0, *faults: UnreadyReason, safe_age: float | None = None, waits: DerivationWaits | None = None
) -> Snapshot:
    """Return a node that follows the tip: its safe head moves with each batch, the finalized one with each epoch."""
    now, recent = NOW - ago, 2 if ago < 1200 else 0
    batch_age = (now % BATCH) + 48 if safe_age is None else safe_age
    head = now - now % L1_BLOCK - 3
    final = now - now % EPOCH - 2 * EPOCH
    unsafe = l2(now - now % L2_BLOCK)
    current = l1(now - batch_age + 30) if safe_age is not None else l1(head)
    engine = EngineStatus(
        1, unsafe, l2(now - batch_age), None, None, l2(min(final - 240, now - batch_age)), False, False
    )
    derivation = DerivationStatus(1, current, safe_age is None, waits=waits or DerivationWaits(412, 230, 95, 310, 187))
    return Snapshot(
        L1Heads(l1(head), l1(final + EPOCH), l1(final)),
        engine,
        derivation,
        PeerStatus(22, 8),
        1541 + recent,
        faults,
        processes(),
        93_784.0 - ago,
        {
            "l1": (endpoint("l1", "l1-a.internal:8545", ago), spare()),
            "blobs": (endpoint("beacon", "beacon:5052", ago, 0.4),),
            "engine": (execution_engine(ago),),
        },
        drops(recent),
        queues(0),
        l1_proof=proof(head, final),
    )


def proof(head: int, final: int) -> L1Proof:
    """Return the proof of an L1 whose newest blocks are of these times, in the Mainnet of that time."""
    slots = [(time - L1_BEACON_TIME) // L1_BLOCK for time in (head - L1_BLOCK, final)]
    return L1Proof(slots[0], head - L1_BLOCK, slots[1], final, slots[1] // 8192, 503, 512, is_linked=True)


def syncing(ago: int) -> Snapshot:
    """Three hours behind, with L1 as the bottleneck."""
    behind = 3 * HOUR + 4.4 * ago
    worked = HOUR - ago
    waits = DerivationWaits(900 + worked * 7 // 10, 230 + worked // 10, 95, 310 + worked // 8, 187 + worked // 12)
    seen = in_step(ago, safe_age=behind, waits=waits)
    busy = {"l1": 0.31, "derivation": 0.46, "compute": 0.22, "engine": 0.38, "blobs": 0.09, "p2p": 0.06, "rpc": 0.005}
    return seen._replace(processes=processes(cpu=busy), queues=queues(8))


def blobs_missing(ago: int) -> Snapshot:
    """Return a node that was away for a month, and whose beacon node no longer has the blobs."""
    age = 31 * 86400 + 4.0 * HOUR + ago * 0.1
    text = "beacon:5052: has no blobs of slot 13221870: NOT_FOUND: beacon block with slot 13221870"
    block = l1(NOW - int(age))
    fault = UnreadyReason(
        "blobs",
        Problem(Code.BLOB_EXPIRED, f"blobs of L1 block {block}", f"{text} (slot 13221870 of the beacon chain)"),
    )
    faults = () if ago > 1500 else (fault,)
    return in_step(ago, *faults, safe_age=age if ago > 1500 else 31 * 86400 + 4.0 * HOUR + 150 - ago)


def process_killed(ago: int) -> Snapshot:
    """Return the derivation process was killed a moment ago, for the second time."""
    if ago > 6:
        return in_step(ago)
    seen = in_step(
        ago, UnreadyReason("derivation", Problem(Code.PROCESS_SILENT, "", f"no status for {4.1 + 6 - ago:.1f} s"))
    )
    return seen._replace(processes=processes(down="derivation"))


def l1_throttled(ago: int) -> Snapshot:
    """Both L1 endpoints refuse requests for their number: nothing of L1 is new."""
    if ago > THROTTLED_SECONDS:
        return in_step(ago)
    before = in_step(THROTTLED_SECONDS)
    text = "L1 latest block: l1-a.internal:8545 and l1-b.example.org: overloaded and asked not to retry for 27 s"
    fault = UnreadyReason("l1", Problem(Code.L1_THROTTLED, "", text))
    seen = in_step(ago, fault)
    assert seen.engine is not None and before.engine is not None
    engine = msgspec.structs.replace(seen.engine, safe=before.engine.safe, finalized=before.engine.finalized)
    busy = endpoint("l1", "l1-a.internal:8545", ago, errors=212, throttled=209, at=NOW - 3, error="HTTP status 429")
    words = "error -32005: daily request count exceeded"
    other = endpoint("l1", "l1-b.example.org", ago, 0.0005, False, 41, 38, NOW - 1, words)
    busy, other = (msgspec.structs.replace(item, verdict="throttles requests") for item in (busy, other))
    beacon = endpoint("beacon", "beacon:5052", ago, 0.4)
    endpoints = {"l1": (busy, other), "blobs": (beacon,), "engine": (execution_engine(ago),)}
    return seen._replace(l1=before.l1, engine=engine, derivation=before.derivation, endpoints=endpoints)


SCENES: Mapping[str, Shape] = {
    "in-step": in_step,
    "syncing": syncing,
    "blobs-missing": blobs_missing,
    "process-killed": process_killed,
    "l1-throttled": l1_throttled,
}


def scene(name: str) -> Scene:
    """Return a state by its name in SCENES, after an hour in steps of the history."""
    shape = SCENES[name]
    builder = StatusBuilder(RpcConfig("v0.1.0", ROLLUP, network="op-mainnet", ready_l1_lag=12))
    history = HeadHistory()
    step = int(STEP_SECONDS)
    for ago in (*range(HOUR, 2 * step, -step), *range(2 * step, -1, -1)):
        status = builder.build(shape(ago), HOUR - ago, NOW - ago)
        history.add(status)
    return Scene(name, status, history)


def processes(
    cpu: Mapping[str, float] = CPU, memory: Mapping[str, int] = MEMORY, down: str | None = None
) -> list[ProcessStatus]:
    """Return the processes as the supervisor lists them, one of them down."""
    result: list[ProcessStatus] = []
    for role in ROLES:
        for copy in range(WORKERS if role == "compute" else 1):
            name = f"{role}-{copy}" if role == "compute" else role
            is_down, started = role == down, 2 if role == down else 1
            result.append(
                ProcessStatus(
                    name=name,
                    pid=48_211 + len(result) + (600 if is_down else 0),
                    incarnation=started + 1 if is_down else 1,
                    restarts=started if is_down else 0,
                    uptime_s=2.0 if is_down else 93_784.0,
                    up=None if role in ("supervisor", "sweeper") else not is_down,
                    heartbeat_age_s=None if role in ("supervisor", "sweeper") or is_down else 0.2,
                    status_age_s=None,
                    cpu_s=100.0,
                    memory_bytes=(2 if is_down else memory.get(role, 41)) << 20,
                    cpu_share=None if is_down else cpu.get(role, 0.001),
                )
            )
    return result


def endpoint(
    kind: str,
    name: str,
    ago: int,
    per_second: float = 0.9,
    in_use: bool = True,
    errors: int = 3,
    throttled: int = 0,
    at: int = NOW - 5 * HOUR,
    error: str = "no answer within 10 s",
) -> EndpointCounts:
    """Return an endpoint that has served for a day."""
    requests = int((93_784 - ago) * per_second)
    latency = 18.4 if kind == "l1" else 42.0
    failing = at > NOW - 60
    return EndpointCounts(
        kind, name, in_use, requests, errors, throttled, latency, failing, error, at, at if throttled else 0
    )


def execution_engine(ago: int) -> EndpointCounts:
    """Return the execution engine beside the node."""
    return msgspec.structs.replace(
        endpoint("engine-api", "127.0.0.1:8551", ago, 1.7, errors=0, error=""), latency_ms=3.2
    )


def spare() -> EndpointCounts:
    """Return a second L1 endpoint that was never needed."""
    return EndpointCounts("l1", "l1-b.example.org", False, 0, 0, 0, None, False, "", 0, 0)


def queues(fetched: int) -> Mapping[str, QueueLength]:
    """Return what waits, with so many L1 blocks being fetched."""
    return {"l1": QueueLength(fetched, fetched // 2), "blobs": QueueLength(0, 0)} | {
        "derivation": QueueLength(0, fetched // 4),
        "engine": QueueLength(0, 0),
    }


def drops(recent: int) -> Sequence[DropCount]:
    """Return what a batcher on a busy chain has dropped, in the course of a day."""
    channel = "0x" + 16 * "3f"
    return (
        DropCount(
            "V3",
            "timestamp_past",
            DropEffect.PAST,
            1480,
            f"batch skipped as past: timestamp {NOW - 9000}, expected {NOW - 8000} [V3]",
            number_at(NOW - 9000),
        ),
        DropCount(
            "CB9.2",
            "frame_duplicate",
            DropEffect.IGNORED,
            60 + recent,
            f"frame ignored: frame 2 of channel {channel} is a duplicate [CB9.2]",
            number_at(NOW - 1200),
        ),
        DropCount(
            "CB2",
            "channel_timed_out",
            DropEffect.TIMED_OUT,
            1,
            f"channel timed out: channel {channel}, opened at L1 block {number_at(NOW - 9 * HOUR)}, timed out after"
            " 300 blocks [CB2]",
            number_at(NOW - 8 * HOUR),
        ),
    )


def number_at(timestamp: float) -> int:
    """Return the number of the L1 block of a time."""
    return L1_MERGE + int(timestamp - L1_MERGE_TIME) // L1_BLOCK


def l1(timestamp: float) -> L1BlockRef:
    """Return the L1 block of a time."""
    number = number_at(timestamp)
    return L1BlockRef(_hash(number), number, _hash(number - 1), L1_MERGE_TIME + (number - L1_MERGE) * L1_BLOCK)


def l2(timestamp: float) -> L2BlockRef:
    """Return the L2 block of a time, with an L1 origin of a minute before."""
    steps = int(timestamp - L2_GENESIS) // L2_BLOCK
    number, origin = ROLLUP.genesis.l2.number + steps, l1(timestamp - 60)
    time = L2_GENESIS + steps * L2_BLOCK
    return L2BlockRef(_hash(number), number, _hash(number - 1), time, BlockId(origin.number, origin.hash), 0)


def _hash(number: int) -> bytes:
    """Return a hash that looks like one."""
    return math.prod((number, 0x9E3779B97F4A7C15F39CC0605CEDC8341082276BF3A27251F86C6A11D0C18E95)).to_bytes(40)[-32:]
