"""Makes the status of the node from what its processes publish [RPC94]."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from rollup_node.stages.messages.base import EndpointCounts, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus, DropCount
from rollup_node.stages.messages.engine import EngineStatus, ForkDoubt
from rollup_node.stages.messages.l1 import L1Heads, L1Proof
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.table import FORKS
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.status import readiness
from rollup_node.stages.rpc.status.node_status import (
    BlockStatus,
    ChainStatus,
    DerivationProgress,
    DropStatus,
    EndpointState,
    EndpointStatus,
    ForkTime,
    HeadsStatus,
    L1Status,
    NodeStatus,
    Peers,
    ProblemStatus,
    ProcessStatus,
    ProofStatus,
    SequencerStatus,
    SequencingWindow,
    State,
    StatusWarning,
)
from rollup_node.stages.rpc.status.progress import RateWindow, RecentDrops, RecentRequests, RecentWaits
from rollup_node.stages.rpc.status.readiness import L1Lag, NodeState, SlowSync

MAX_SENTENCE = 300
THROTTLED_SECONDS = 60.0
L1_ENDPOINT = "l1"
_DIGITS = re.compile("[0-9]+")

SPECS = "https://specs.optimism.io/"
_DERIVATION = "protocol/derivation.html"
_SPAN_BATCHES = "protocol/delta/span-batches.html"

_SECTIONS = {
    "AD": "experimental/alt-da.html",
    "AQ": f"{_DERIVATION}#payload-attributes-derivation",
    "BE": f"{_DERIVATION}#batch-format",
    "BF": f"{_DERIVATION}#batcher-transaction-format",
    "BL": "protocol/ecotone/derivation.html#ecotone-blob-retrieval",
    "BQ": f"{_DERIVATION}#batch-queue",
    "BS": "protocol/holocene/derivation.html#span-batches",
    "CA": "protocol/holocene/derivation.html#channel-bank",
    "CB": f"{_DERIVATION}#channel-bank",
    "CV": f"{_SPAN_BATCHES}#span-batch-format",
    "E": f"{_DERIVATION}#batch-queue",
    "FU": f"{_SPAN_BATCHES}#batch-queue",
    "O": f"{_DERIVATION}#l1-retrieval",
    "P": f"{_DERIVATION}#frame-format",
    "PS": f"{_DERIVATION}#resetting-the-pipeline",
    "PX": f"{_SPAN_BATCHES}#batch-queue",
    "Q": "protocol/holocene/derivation.html#frame-queue",
    "RD": f"{_DERIVATION}#channel-format",
    "RS": f"{_DERIVATION}#resetting-the-pipeline",
    "ST": f"{_DERIVATION}#channel-format",
    "T": f"{_DERIVATION}#l1-traversal",
    "V": f"{_DERIVATION}#batch-queue",
    "X": f"{_SPAN_BATCHES}#batch-queue",
}
"""By the letters of the rule's id."""

_LETTERS = re.compile("[A-Z]+")


class Snapshot(NamedTuple):
    """What is known at one moment; None for what is not. `drops` are those since derivation started."""

    l1: L1Heads | None = None
    engine: EngineStatus | None = None
    derivation: DerivationStatus | None = None
    peers: PeerStatus | None = None
    drops: int | None = None
    faults: Sequence[readiness.UnreadyReason] = ()
    processes: list[ProcessStatus] | None = None
    uptime: float | None = None
    endpoints: Mapping[str, Sequence[EndpointCounts]] | None = None
    drop_counts: Sequence[DropCount] = ()
    queues: Mapping[str, QueueLength] = {}
    fork_doubts: Sequence[ForkDoubt] = ()
    l1_proof: L1Proof | None = None


class StatusBuilder:
    """Makes one status after the other, with what needs a while to be seen; `reasons` are those of the last one."""

    def __init__(self, config: RpcConfig) -> None:
        self._config = config
        self._state = NodeState(config.derives)
        self._lag, self.slow = L1Lag(config.l1_confs), SlowSync()
        self._safe, self._waits, self._drops = RateWindow(), RecentWaits(), RecentDrops()
        self._drops_by_kind: dict[tuple[str, str], RecentDrops] = {}
        self._requests = RecentRequests()
        self._has_drops = False
        self.reasons: list[readiness.UnreadyReason] = []
        self._since: dict[tuple[str, str], float] = {}

    def build(self, seen: Snapshot, now: float, wall: float) -> NodeStatus:
        """Return the status now; `wall` in Unix seconds."""
        self._add(seen, now)
        config, engine, rollup = self._config, seen.engine, self._config.rollup
        head = None if seen.l1 is None else seen.l1.head
        behind = self._lag.step(head, seen.derivation, now)
        state = self._state.step(seen.faults, behind, now)
        heads = _heads(engine, wall)
        l1 = _l1_status(seen, behind, wall)
        progress = self._progress(seen, l1, state, now)
        chain_speed = 1 / rollup.block_time
        is_slow = self.slow.step(state, progress.blocks_per_s, chain_speed, l1.lag_s, now)
        reasons = self._reasons(seen.faults, heads, l1, now)
        if is_slow and any(reason.problem.code is Code.BEHIND for reason in reasons):
            reasons.append(readiness.slow_sync_reason(progress, chain_speed))
        self.reasons, texts = reasons, [str(reason) for reason in reasons]
        return NodeStatus(
            version=config.version,
            time=round(wall, 3),
            uptime_s=seen.uptime,
            chain=ChainStatus(
                network=config.network or None,
                l1_chain_id=rollup.l1_chain_id,
                l2_chain_id=rollup.l2_chain_id,
                block_time_s=rollup.block_time,
                fork=active_fork(rollup, wall),
                next_fork=next_fork(rollup, wall),
            ),
            state=state,
            state_age_s=round(now - (self._state.since or 0.0), 1),
            sentence=_sentence(self._state.current, texts, l1, progress),
            ready=not reasons,
            reasons=texts,
            heads=heads,
            l1=l1,
            progress=progress,
            sequencing_window=_window(seen, rollup),
            sequencer=None if engine is None else SequencerStatus(engine.sequencer_enabled, engine.sequencer_active),
            peers=None if seen.peers is None else Peers(seen.peers.connected, seen.peers.mesh),
            drops_1h=None if seen.drops is None else self._drops.recent(now),
            problems=self._problems(seen.faults, now, wall),
            processes=_with_queues(seen.processes, seen.queues),
            endpoints=None if seen.endpoints is None else _endpoints(seen.endpoints, wall),
            drops=None if seen.drops is None else self._drop_statuses(seen.drop_counts, now),
            l1_req_per_block=self._requests.per_block(),
            warnings=[*self._warnings(engine, wall), *readiness.engine_warnings(seen.fork_doubts, wall)],
            compute_tasks=sum(queue.tasks for queue in seen.queues.values()) if seen.queues else None,
        )

    def _warnings(self, engine: EngineStatus | None, wall: float) -> list[StatusWarning]:
        # One that follows another node and does not sequence takes blocks as they are.
        if not self._config.derives and (engine is None or not engine.sequencer_enabled):
            return []
        return readiness.upgrade_warnings(self._config.rollup, None if engine is None else engine.safe, wall)

    def _add(self, seen: Snapshot, now: float) -> None:
        if seen.engine is not None and seen.engine.safe is not None:
            self._safe.add(seen.engine.safe.number, now)
        if seen.derivation is not None:
            self._waits.add(seen.derivation.waits, now)
        if seen.drops is not None:
            self._drops.add(seen.drops, now)
            for kind in seen.drop_counts:
                recent = self._drops_by_kind.get((kind.reason, kind.effect))
                if recent is None:
                    recent = self._drops_by_kind[kind.reason, kind.effect] = RecentDrops()
                    # The first one of a kind counts; what is there when this process starts does not.
                    recent.add(0 if self._has_drops else kind.count, now)
                recent.add(kind.count, now)
            self._has_drops = True
        self._add_requests(seen, now)

    def _add_requests(self, seen: Snapshot, now: float) -> None:
        current = None if seen.derivation is None else seen.derivation.current_l1
        if current is None or seen.endpoints is None:
            return
        calls = [item.requests for endpoint in seen.endpoints.values() for item in endpoint if item.kind == L1_ENDPOINT]
        if calls:
            self._requests.add(sum(calls), current.number, now)

    def _drop_statuses(self, counts: Sequence[DropCount], now: float) -> list[DropStatus]:
        return [
            DropStatus(
                rule=kind.rule,
                reason=kind.reason,
                effect=kind.effect.value,
                count=kind.count,
                count_1h=self._drops_by_kind[kind.reason, kind.effect].recent(now),
                text=kind.text,
                l1_block=kind.l1_block,
                link=rule_link(kind.rule),
            )
            for kind in counts
        ]

    def _reasons(
        self, faults: Sequence[readiness.UnreadyReason], heads: HeadsStatus, l1: L1Status, now: float
    ) -> list[readiness.UnreadyReason]:
        limit = self._config.ready_l1_lag
        reasons = list(faults)
        is_over = limit > 0 and self._config.derives and self._lag.is_over(limit, now)
        # What is unknown because of a fault is no reason of its own.
        if is_over and not (faults and l1.lag_blocks is None):
            reasons.append(readiness.l1_lag_reason(l1, limit))
        return reasons + readiness.age_reasons(heads, self._config)

    def _progress(self, seen: Snapshot, l1: L1Status, state: State, now: float) -> DerivationProgress:
        rollup, derivation = self._config.rollup, seen.derivation
        safe, target = (None if seen.engine is None else seen.engine.safe), None
        if safe is not None and l1.head is not None:
            target = max(_block_at(rollup, l1.head.timestamp), safe.number)
        speed, eta, limited_by = self._safe.rate(now), None, None
        if state is State.SYNCING:
            limited_by = None if derivation is None else self._waits.longest()
            # The target moves on by a block each block time meanwhile.
            gain = None if speed is None else speed - 1 / rollup.block_time
            if safe is not None and target is not None and gain is not None and gain > 0:
                eta = int((target - safe.number) / gain)
        return DerivationProgress(
            target_block=target,
            blocks_per_s=None if speed is None else round(speed, 2),
            eta_s=eta,
            limited_by=limited_by,
            waits_s=None
            if derivation is None
            else {name: getattr(derivation.waits, name) for name in derivation.waits.__struct_fields__},
        )

    def _problems(self, faults: Sequence[readiness.UnreadyReason], now: float, wall: float) -> list[ProblemStatus]:
        """Return the faults, each since it is there without a pause; numbers in its text may change."""
        before, self._since = self._since, {}
        problems = []
        for fault in faults:
            code, text = fault.problem.code, str(fault.problem)
            key = fault.process, _DIGITS.sub("#", text) if code is None else code.text
            since = self._since[key] = before.get(key, now)
            age = max(now - since, 0.0)
            named = (None, None, None) if code is None else (code.text, code.meaning, code.remedy)
            status = ProblemStatus(fault.process, named[0], text, int(wall - age), round(age, 1), *named[1:])
            problems.append(status)
        return problems


def active_fork(rollup: RollupConfig, wall: float) -> str:
    """Return the name of the last fork that is active at a time in Unix seconds."""
    times = rollup.fork_times
    active = [fork.name for fork in FORKS if times.get(fork.name, wall + 1) <= wall]
    return active[-1] if active else "bedrock"


def next_fork(rollup: RollupConfig, wall: float) -> ForkTime | None:
    """Return the fork that comes next after a time in Unix seconds, if one is scheduled."""
    times = rollup.fork_times
    coming = sorted((time, fork.name) for fork in FORKS if (time := times.get(fork.name, 0)) > wall)
    return ForkTime(coming[0][1], coming[0][0], int(coming[0][0] - wall)) if coming else None


def _block(ref: L1BlockRef | L2BlockRef | None, wall: float) -> BlockStatus | None:
    if ref is None:
        return None
    return BlockStatus(ref.number, to_hex(ref.hash), ref.timestamp, _age(ref.timestamp, wall))


def _age(timestamp: int, wall: float) -> float:
    return round(max(wall - timestamp, 0.0), 1)


def _heads(engine: EngineStatus | None, wall: float) -> HeadsStatus:
    if engine is None:
        return HeadsStatus(None, None, None)
    return HeadsStatus(_block(engine.unsafe, wall), _block(engine.safe, wall), _block(engine.finalized, wall))


def _l1_status(seen: Snapshot, behind: int | None, wall: float) -> L1Status:
    l1 = seen.l1 or L1Heads(None, None, None)
    current = None if seen.derivation is None else seen.derivation.current_l1
    if current is None and seen.engine is not None:
        current = seen.engine.current_l1
    lag = None if current is None or l1.head is None else max(l1.head.timestamp - current.timestamp, 0)
    return L1Status(
        current=_block(current, wall),
        head=_block(l1.head, wall),
        safe=_block(l1.safe, wall),
        finalized=_block(l1.finalized, wall),
        lag_blocks=behind,
        lag_s=lag,
        proof=None if seen.l1_proof is None else _proof(seen.l1_proof, wall),
    )


def _proof(proof: L1Proof, wall: float) -> ProofStatus:
    return ProofStatus(
        head_slot=proof.head_slot,
        age_s=_age(proof.head_time, wall),
        finalized_slot=proof.finalized_slot,
        finalized_age_s=_age(proof.finalized_time, wall),
        period=proof.period,
        participation=round(proof.participants / proof.committee_size, 4),
        linked=proof.is_linked,
        finality_late=proof.is_finality_late,
    )


def _with_queues(
    processes: list[ProcessStatus] | None, queues: Mapping[str, QueueLength]
) -> list[ProcessStatus] | None:
    if processes is None or not queues:
        return processes
    result = ((process, queues.get(process.name)) for process in processes)
    return [item if queue is None else msgspec.structs.replace(item, queue=queue.items) for item, queue in result]


def _endpoints(fields: Mapping[str, Sequence[EndpointCounts]], wall: float) -> list[EndpointStatus]:
    return [
        EndpointStatus(
            process=process,
            kind=count.kind,
            name=count.name,
            state=_endpoint_state(count, wall),
            in_use=count.in_use,
            requests=count.requests,
            errors=count.errors,
            throttled=count.throttled,
            latency_ms=count.latency_ms,
            error=count.error or None,
            error_age_s=round(max(wall - count.error_at, 0.0), 1) if count.error else None,
            verdict=count.verdict or None,
        )
        for process, counts in fields.items()
        for count in counts
    ]


def _endpoint_state(counts: EndpointCounts, wall: float) -> EndpointState:
    if counts.throttled and wall - counts.throttled_at < THROTTLED_SECONDS:
        return EndpointState.THROTTLED
    if counts.failing or counts.verdict:
        return EndpointState.FAILING
    return EndpointState.OK if counts.requests else EndpointState.UNUSED


def _window(seen: Snapshot, rollup: RollupConfig) -> SequencingWindow | None:
    safe = None if seen.engine is None else seen.engine.safe
    current = None if seen.derivation is None else seen.derivation.current_l1
    if safe is None or current is None:
        return None
    used = max(current.number - safe.l1_origin.number, 0)
    return SequencingWindow(rollup.seq_window_size, used, max(rollup.seq_window_size - used, 0))


def _block_at(rollup: RollupConfig, timestamp: int) -> int:
    return rollup.genesis.l2.number + max(timestamp - rollup.genesis.l2_time, 0) // rollup.block_time


def _sentence(state: State, reasons: list[str], l1: L1Status, progress: DerivationProgress) -> str:
    if state is State.SYNCING and l1.lag_s is not None:
        parts = [f"{duration(l1.lag_s)} behind"]
        if progress.eta_s:
            parts.append(f"about {duration(progress.eta_s)} left")
        if progress.limited_by is not None:
            parts.append(f"limited by {progress.limited_by}")
        return f"{state}: {', '.join(parts)}"
    if reasons:
        others = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"{state}: {reasons[0][:MAX_SENTENCE]}{others}"
    if state is State.SYNCED and l1.head is not None:
        return f"{state}: in step with L1 block {l1.head.number}"
    return state.value


def rule_link(rule: str) -> str | None:
    """Return the address of the section that a rule belongs to; None for a rule of which the specs say nothing."""
    letters = _LETTERS.match(rule)
    section = None if letters is None else _SECTIONS.get(letters.group())
    return None if section is None else SPECS + section
