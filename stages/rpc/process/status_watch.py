"""What becomes of each status: progress and conditions of the node in the log, and metrics [LOG7, LOG19, RPC94]."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rollup_node.stages.io.log.lasting_conditions import EVERY_SECONDS, LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.metrics.tables import UNKNOWN, WARNING_CODES
from rollup_node.stages.io.system import tell_service_manager
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.messages.log_fields import FieldValue, TypedText
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.status.node_status import NodeStatus, State
from rollup_node.stages.rpc.status.progress import Progress
from rollup_node.stages.rpc.status.readiness import UnreadyReason

PEERLESS_SECONDS = 25.0
"""So long a start, or a loss of the last peer, may take to find others."""

DAY_SECONDS, WARN_DAYS = 86_400.0, 30

ENDS = {
    Code.BEHIND: "derivation has caught up",
    Code.HEAD_OLD: "the L2 heads are young again",
    Code.PEERS_NONE: "a peer is connected",
    Code.PROCESS_SILENT: "the process sends its status again",
    Code.SYNC_SLOW: "the sync gets on",
}
STEP_SECONDS = 1.0
METRICS_SECONDS = 2.0
"""Metrics are written as often."""
DISK_SECONDS = 30.0

_SYNCING = (State.STARTING, State.EL_SYNC, State.SYNCING)


class _Seen(NamedTuple):
    """A condition of a status, as it is logged."""

    code: Code
    message: str
    fields: dict[str, FieldValue]
    subject: str = ""
    """Which process or head, where there are several."""


class StatusWatch:
    """Logs the conditions of one status after the other. `clock` returns seconds of any monotonic clock.

    A node that does not look for peers, without `finds_peers`, can only wait for them: this is said once [LOG19]."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic, *, finds_peers: bool = True) -> None:
        self._clock, self._log, self._finds_peers = clock, log, finds_peers
        self._conditions: dict[tuple[Code, str], LastingCondition] = {}
        self._peerless_since: float | None = None
        self._warn_at: dict[tuple[str, int | None], float] = {}

    def step(self, status: NodeStatus, reasons: Sequence[UnreadyReason], is_slow: bool) -> None:
        """Take a status, why the node is not ready, and whether its sync has been slower than the chain for long."""
        slow = [_slow_sync(status)] if is_slow else []
        conditions = (*_reasons(status.state, reasons), *slow, *self._no_peers(status))
        seen = {(condition.code, condition.subject): condition for condition in conditions}
        for key, item in seen.items():
            if key not in self._conditions:
                is_once = item.code is Code.PEERS_NONE and not self._finds_peers
                every = math.inf if is_once else EVERY_SECONDS
                self._conditions[key] = LastingCondition(self._log, self._clock, counts=False, every=every)
            self._conditions[key].report(item.code, item.message, **item.fields)
        for key in self._conditions.keys() - seen.keys():
            self._conditions[key].end(ENDS[key[0]])
        self._warn_daily(status)

    def _warn_daily(self, status: NodeStatus) -> None:
        """In the last days before they matter; the log of the start has the warnings already."""
        now = self._clock()
        for warning in status.warnings:
            if warning.due is not None and warning.due - status.time > WARN_DAYS * DAY_SECONDS:
                continue
            subject = warning.code, warning.due
            if now >= self._warn_at.setdefault(subject, now + DAY_SECONDS):
                self._warn_at[subject] = now + DAY_SECONDS
                self._log.warn(warning.text, code=warning.code, do=warning.do)

    def _no_peers(self, status: NodeStatus) -> Iterator[_Seen]:
        """For a while no peer has been connected, with P2P."""
        now = self._clock()
        if status.peers is None or status.peers.connected:
            self._peerless_since = None
            return
        self._peerless_since = now if self._peerless_since is None else self._peerless_since
        if now - self._peerless_since >= PEERLESS_SECONDS:
            yield _Seen(Code.PEERS_NONE, "no peer is connected", {})


def _slow_sync(status: NodeStatus) -> _Seen:
    speed, chain_speed = status.progress.blocks_per_s, 1 / status.chain.block_time_s
    fields: dict[str, FieldValue] = {
        "speed": TypedText(f"{speed:g} blocks/s", blocks_per_s=speed),
        "chain": TypedText(f"{chain_speed:g} blocks/s", chain_blocks_per_s=chain_speed),
        "limited_by": status.progress.limited_by or "nothing that is known",
    }
    return _Seen(Code.SYNC_SLOW, "the sync is slower than the chain grows", fields)


def _reasons(state: State, reasons: Sequence[UnreadyReason]) -> Iterator[_Seen]:
    """Yield the reasons why the node is not ready. Lag is expected while it syncs."""
    for reason in reasons:
        code = reason.problem.code
        if code is Code.PROCESS_SILENT or (code in (Code.BEHIND, Code.HEAD_OLD) and state not in _SYNCING):
            text = f"{reason.process}: {reason.problem.text}"
            subject = reason.process if code is Code.PROCESS_SILENT else reason.head
            yield _Seen(code, "the node is not ready", {"reason": text}, subject)


class ProgressLog:
    """Looks at the status each second, and writes the lines that are due, and what is wrong with it."""

    def __init__(self, source: StatusSource, *, finds_peers: bool = True, chain: str = "") -> None:
        self._source, self._log = source, Logger("progress", chain)
        self._progress = Progress()
        self._watch = StatusWatch(self._log, source.clock, finds_peers=finds_peers)
        self.periodic_task = PeriodicTask("progress", self.step, is_aligned=True)

    async def step(self) -> float:
        """Write the line that is due, if any."""
        status = self._source.status()
        self._watch.step(status, *self._source.reasons())
        line = self._progress.step(status, self._source.clock())
        if line is not None:
            self._log.info(line.message, **line.fields)
            tell_service_manager(f"STATUS={status.sentence}")
        return STEP_SECONDS


class StatusMetrics:
    """Sets the metrics every 2 seconds; what is not known is not a number."""

    def __init__(self, source: StatusSource, meter: Meter) -> None:
        self._source, self._meter = source, meter
        self.periodic_task = PeriodicTask("status metrics", self.step, is_aligned=True)

    async def step(self) -> float:
        self.show(self._source.status())
        return METRICS_SECONDS

    def show(self, status: NodeStatus) -> None:
        """Set the metrics of a status."""
        meter, l1, progress, window = self._meter, status.l1, status.progress, status.sequencing_window
        meter.set("ready", int(status.ready))
        for state in State:
            meter.set("sync_state", int(state is status.state), state=state.value)
        for stage in DerivationWaits.__struct_fields__:
            meter.set("sync_limited_by", int(stage == progress.limited_by), stage=stage)
        heads = status.heads
        for head, block in (("unsafe", heads.unsafe), ("safe", heads.safe), ("finalized", heads.finalized)):
            meter.set("sync_head_age_seconds", UNKNOWN if block is None else block.age_s, head=head)
        self._set("sync_l1_lag_seconds", l1.lag_s)
        self._set("sync_l1_lag_blocks", l1.lag_blocks)
        proof = l1.proof
        self._set("l1_proof_age_seconds", None if proof is None else proof.age_s)
        self._set("l1_proof_finalized_age_seconds", None if proof is None else proof.finalized_age_s)
        self._set("l1_proof_participation", None if proof is None else proof.participation)
        self._set("l1_proof_period", None if proof is None else proof.period)
        self._set("l1_proof_linked", None if proof is None else int(proof.linked))
        self._set("l1_proof_finality_late", None if proof is None else int(proof.finality_late))
        self._set("sync_blocks_per_second", progress.blocks_per_s)
        self._set("sync_eta_seconds", progress.eta_s)
        self._set("l1_requests_per_block", status.l1_req_per_block)
        self._set("sequencing_window_left_blocks", None if window is None else window.left_blocks)
        self._set("sequencing_window_blocks", None if window is None else window.size_blocks)
        fork, codes = status.chain.next_fork, [warning.code for warning in status.warnings]
        self._set("next_fork_seconds", None if fork is None else fork.in_s)
        for code in WARNING_CODES:
            meter.set("warnings", codes.count(code.text), code=code.text)

    def _set(self, name: str, value: float | None) -> None:
        self._meter.set(name, UNKNOWN if value is None else value)


class DiskMetrics:
    """Sets the space where the databases are every DISK_SECONDS, in a thread: a remote file system may hang."""

    def __init__(self, databases: Mapping[str, str], meter: Meter) -> None:
        self._databases, self._meter = databases, meter
        self.periodic_task = PeriodicTask("disk metrics", self.step)

    async def step(self) -> float:
        """Set all metrics."""
        for name, path in self._databases.items():
            try:
                space = await asyncio.to_thread(os.statvfs, os.path.dirname(path))
            except OSError:
                size = free = UNKNOWN
            else:
                size, free = float(space.f_blocks * space.f_frsize), float(space.f_bavail * space.f_frsize)
            self._meter.set("disk_size_bytes", size, database=name)
            self._meter.set("disk_free_bytes", free, database=name)
        return DISK_SECONDS
