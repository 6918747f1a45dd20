"""Watches the sequencers and keeps exactly the leader sequencing.

A leader that is unhealthy loses the lead, the next one is brought to the last committed block and started [CND5, CND6].
With the rules of health and the client."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import HexError, hash_from_hex, to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

MAX_PAYLOADS = 128
MAX_PAYLOAD_BYTES = 64 << 20
"""Payloads are kept for sequencers that lack the last ones."""
MAX_BLOCKS = 1 << 18
NOT_LEADER = "node is not the leader"


class CommitRefused(Exception):
    """A block is not committed; the text says why."""


class CommittedBlock(NamedTuple):
    """A committed block and the sequencer that committed it."""

    number: int
    hash: Hash
    server: str


class Cluster:
    """`leader` is one of `servers`, from the first term on; `blocks` are the latest commits, oldest first."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.servers = tuple(servers)
        self.leader = self.servers[0]
        self.term = 1
        self.blocks: list[CommittedBlock] = []
        self.dropped = 0
        self._payloads: OrderedDict[Hash, ExecutionPayload] = OrderedDict()
        self._payload_bytes = 0

    @property
    def last(self) -> ExecutionPayload | None:
        """The last committed block."""
        return next(reversed(self._payloads.values()), None)

    def lead(self, server: str) -> None:
        """Make a server the leader of the next term."""
        self.leader = server
        self.term += 1

    def extends(self, payload: ExecutionPayload) -> bool:
        """Whether a block is the last committed one again, or its child; any block is, as long as there is none."""
        last = self.last
        return last is None or payload.block_hash == last.block_hash or _is_child(payload, last)

    def commit(self, server: str, payload: ExecutionPayload, *, is_replaced: bool = False) -> bool:
        """Take a block of a server; False for the last one again.

        With `is_replaced` the last block is off the chain, and any block may follow it. Raises CommitRefused for a
        server that does not lead, and a block that does not extend."""
        if server != self.leader:
            raise CommitRefused(NOT_LEADER)
        last = self.last
        if last is not None and payload.block_hash == last.block_hash:
            return False
        if last is not None and not is_replaced and not self.extends(payload):
            raise CommitRefused(f"{_shown(payload)} does not extend {_shown(last)}, the last committed block")
        if is_replaced:
            self._payloads.clear()
            self._payload_bytes = 0
        self._payloads[payload.block_hash] = payload
        self._payload_bytes += _size(payload)
        while len(self._payloads) > MAX_PAYLOADS or (self._payload_bytes > MAX_PAYLOAD_BYTES and self._has_several):
            self._payload_bytes -= _size(self._payloads.popitem(last=False)[1])
        self.blocks.append(CommittedBlock(payload.block_number, payload.block_hash, server))
        if len(self.blocks) > MAX_BLOCKS:
            del self.blocks[0]
            self.dropped += 1
        return True

    @property
    def _has_several(self) -> bool:
        return len(self._payloads) > 1

    def after(self, head: Hash) -> list[ExecutionPayload] | None:
        """Return the committed blocks after a head, oldest first; None where the head is on no chain that is kept."""
        result: list[ExecutionPayload] = []
        for payload in reversed(self._payloads.values()):
            if payload.block_hash == head:
                return result[::-1]
            result.append(payload)
        return result[::-1] if result and result[-1].parent_hash == head else None


def _is_child(payload: ExecutionPayload, parent: ExecutionPayload) -> bool:
    return payload.parent_hash == parent.block_hash and payload.block_number == parent.block_number + 1


def _size(payload: ExecutionPayload) -> int:
    return sum(map(len, payload.transactions))


def _shown(payload: ExecutionPayload) -> str:
    return f"block {payload.block_number} {to_hex(payload.block_hash)[:12]}"


UNREACHABLE_POLLS = 2
"""So many polls in a row without an answer make a sequencer unhealthy: its rpc process may be starting again."""


class SequencerReport(NamedTuple):
    """What a sequencer answers; `head_time` in Unix seconds."""

    head_number: int
    head_hash: bytes
    head_time: int
    safe_number: int
    safe_hash: bytes
    active: bool


def stuck_head(report: SequencerReport, interval: float, now: float, leads_since: float) -> str | None:
    """Why the unsafe head of a sequencer is taken for stuck at a Unix time, above an age of `interval`; or None.

    A head that was old when the sequencer began to lead is no fault of it: `leads_since` counts instead."""
    age = now - max(report.head_time, leads_since)
    return f"its unsafe head {report.head_number} has not advanced for {age:.1f} s" if age > interval else None


class Action(Enum):
    """What a conductor does with its sequencer."""

    NONE = "none"
    START = "start"
    STOP = "stop"
    TRANSFER = "transfer"


def action(*, leads: bool, healthy: bool, active: bool | None) -> Action:
    """Return the action for a sequencer in this state; `active` is None while it does not answer.

    | leads | healthy | active | action                            |
    |-------|---------|--------|-----------------------------------|
    | no    | any     | yes    | STOP                              |
    | no    | any     | no     | NONE                              |
    | yes   | no      | any    | TRANSFER; it is stopped afterwards |
    | yes   | yes     | no     | START                             |
    | yes   | yes     | yes    | NONE                              |"""
    if not leads:
        return Action.STOP if active else Action.NONE
    if not healthy:
        return Action.TRANSFER
    return Action.NONE if active else Action.START


def best(candidates: dict[str, SequencerReport | None], problems: dict[str, str | None]) -> str | None:
    """Return the sequencer to lead next.

    Of the healthy ones, else of those that answer, the one with the highest head."""
    answering = {name: report for name, report in candidates.items() if report is not None}
    healthy = {name: report for name, report in answering.items() if problems.get(name) is None}
    pool = healthy or answering
    return max(pool, key=lambda name: pool[name].head_number, default=None)


POLL_SECONDS = 1.0
ADMIN_SECONDS = 5.0
MAX_ANSWER = 1 << 20


class CallFailed(Exception):
    """A sequencer does not answer, has no heads, or refuses; the text says which."""


class SequencerClient:
    """One sequencer. `report` is its last answer, None when it did not answer the last polls."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.report: SequencerReport | None = None
        self._rpc = JsonRpcClient(url, timeout=POLL_SECONDS, max_body=MAX_ANSWER)
        self._failures = 0

    async def close(self) -> None:
        """Close the connections."""
        await self._rpc.close()

    async def poll(self) -> SequencerReport | None:
        """Fetch a report; the one before is kept after a single failure."""
        try:
            self.report = await self._fetch()
            self._failures = 0
        except CallFailed:
            self._failures += 1
            if self._failures >= UNREACHABLE_POLLS:
                self.report = None
        return self.report

    async def start(self, head: Hash) -> None:
        """admin_startSequencer. Raises CallFailed."""
        await self._call("admin_startSequencer", to_hex(head), timeout=ADMIN_SECONDS)

    async def stop(self) -> str:
        """admin_stopSequencer; the hash of the head. Raises CallFailed."""
        return str(await self._call("admin_stopSequencer", timeout=ADMIN_SECONDS))

    async def post(self, payload: ExecutionPayload) -> None:
        """admin_postUnsafePayload. Raises CallFailed."""
        await self._call("admin_postUnsafePayload", envelope_to_json(payload), timeout=ADMIN_SECONDS)

    async def _fetch(self) -> SequencerReport:
        status, active = await asyncio.gather(self._call("optimism_syncStatus"), self._call("admin_sequencerActive"))
        try:
            unsafe, safe = status["unsafe_l2"], status["safe_l2"]
            if not int(unsafe["hash"], 16):
                raise CallFailed("it has no heads yet")
            return SequencerReport(
                head_number=unsafe["number"],
                head_hash=hash_from_hex(unsafe["hash"]),
                head_time=unsafe["timestamp"],
                safe_number=safe["number"],
                safe_hash=hash_from_hex(safe["hash"]),
                active=active is True,
            )
        except (TypeError, KeyError, ValueError, HexError) as error:
            raise CallFailed(f"its sync status is malformed: {error!r}") from None

    async def _call(self, method: str, *params: Any, timeout: float | None = None) -> Any:
        try:
            return await self._rpc.call(method, *params, timeout=timeout)
        except (EndpointError, RpcFailure) as error:
            raise CallFailed(str(error)) from None


FIRST_START_SECONDS = 60.0
"""Until a leader was started for the first time, nodes that do not answer yet keep the lead so long."""
CATCH_UP_SECONDS = 3.0
CATCH_UP_POLL_SECONDS = 0.05
MAX_EVENTS = 1000

log = Logger("conductor")

IsReplaced = Callable[[ExecutionPayload, SequencerReport], Awaitable[bool]]
"""Whether a committed block is off the chain, as a sequencer and L1 know it."""


class Control:
    """`interval` is in seconds between two looks at the sequencers, `unsafe_interval` the greatest age of a head.

    `events` are lines for the user, the latest MAX_EVENTS, of which `event_count` were written."""

    def __init__(
        self,
        cluster: Cluster,
        urls: Mapping[str, str],
        unsafe_interval: float,
        is_replaced: IsReplaced,
        interval: float,
    ) -> None:
        self.cluster, self._is_replaced, self._interval = cluster, is_replaced, interval
        self._unsafe_interval = unsafe_interval
        self.sequencers = {name: SequencerClient(name, url) for name, url in urls.items()}
        self.problems: dict[str, str | None] = dict.fromkeys(urls)
        self.paused = False
        self.events: deque[str] = deque(maxlen=MAX_EVENTS)
        self.event_count = 0
        self.failovers = 0
        self._leads_since = time.time()
        self._lost_at: float | None = None
        self._start_failing_since: float | None = None
        self._started = False
        self._warned: dict[str, str] = {}

    async def run(self) -> None:
        """Watch until it is cancelled."""
        try:
            while True:
                began = time.monotonic()
                await self.step()
                await asyncio.sleep(max(0.0, began + self._interval - time.monotonic()))
        finally:
            for sequencer in self.sequencers.values():
                await sequencer.close()

    async def step(self) -> None:
        """One look at all sequencers, and what follows from it."""
        reports = await asyncio.gather(*(sequencer.poll() for sequencer in self.sequencers.values()))
        result = dict(zip(self.sequencers, reports, strict=True))
        self._check(result)
        if self.paused:
            return
        if self._action(self.cluster.leader, result) is Action.TRANSFER:
            self._transfer_from(self.cluster.leader, result)
            self._check(result)
        await asyncio.gather(*(self._act(name, result) for name in result))

    def _check(self, fields: Mapping[str, SequencerReport | None]) -> None:
        for name, report in fields.items():
            self.problems[name] = "it does not answer" if report is None else self._problem(name, report)

    def _problem(self, name: str, report: SequencerReport) -> str | None:
        """Why a sequencer is unhealthy: a leader by the age of its head from its start on, before nobody sequences."""
        now, since = time.time(), self._start_failing_since
        if name != self.cluster.leader:
            return stuck_head(report, self._unsafe_interval, now, 0.0)
        if report.active:
            return stuck_head(report, self._unsafe_interval, now, self._leads_since)
        if since is not None and now - since > self._unsafe_interval:
            return f"it could not be started for {now - since:.1f} s"
        return None

    def _action(self, name: str, fields: Mapping[str, SequencerReport | None]) -> Action:
        report = fields[name]
        return action(
            leads=name == self.cluster.leader,
            healthy=self.problems[name] is None,
            active=None if report is None else report.active,
        )

    def transfer(self, to: str, why: str) -> None:
        """Make a sequencer the leader at once: from here on commits of the one before are refused."""
        before = self.cluster.leader
        self.cluster.lead(to)
        self._leads_since = self._lost_at = time.time()
        self._start_failing_since = None
        self.failovers += 1
        self._say(f"failover: {why}; {to} leads instead of {before} (term {self.cluster.term})")

    # --- actions ---------------------------------------------------------------------------------------------------

    async def _act(self, name: str, fields: Mapping[str, SequencerReport | None]) -> None:
        report, wanted = fields[name], self._action(name, fields)
        try:
            if wanted is Action.START and report is not None:
                await self._start(self.sequencers[name], report)
            elif wanted is Action.STOP:
                await self._stop(self.sequencers[name])
        except CallFailed as error:
            if wanted is Action.START and name == self.cluster.leader:
                self._start_failing_since = self._start_failing_since or time.time()
            self._warn(name, f"{name}: {error}")

    def _transfer_from(self, name: str, fields: Mapping[str, SequencerReport | None]) -> None:
        starting = not self._started and fields[name] is None
        if starting and time.time() < self._leads_since + FIRST_START_SECONDS:
            return
        others = {other: report for other, report in fields.items() if other != name}
        to, problem = best(others, self.problems), self.problems[name]
        if to is None:
            self._warn(name, f"{name} is unhealthy ({problem}), and no other sequencer answers")
            return
        self.transfer(to, f"{name} is unhealthy, {problem}")

    async def _stop(self, sequencer: SequencerClient) -> None:
        head = await sequencer.stop()
        self._say(f"{sequencer.name} was stopped at {head[:12]}")

    async def _start(self, sequencer: SequencerClient, report: SequencerReport) -> None:
        """Start the leader on the last committed block, which it gets first where it lacks it."""
        term, last = self.cluster.term, self.cluster.last
        if last is not None and report.head_hash != last.block_hash:
            missing = self.cluster.after(report.head_hash)
            if missing:
                await self._catch_up(sequencer, missing)
            elif not await self._is_replaced(last, report):
                shown = f"its head {report.head_number} {to_hex(report.head_hash)[:12]}"
                raise CallFailed(f"{shown} is not on the committed chain, which ends at {last.block_number}")
        head = sequencer.report or report
        if term != self.cluster.term:
            return
        await sequencer.start(head.head_hash)
        now, lost = time.time(), self._lost_at
        self._started, self._lost_at = True, None
        self._leads_since, self._start_failing_since = now, None
        self._warned.clear()
        after = "" if lost is None else f", {now - lost:.1f} s after the failover"
        self._say(f"{sequencer.name} leads and was started at block {head.head_number}{after}")

    async def _catch_up(self, sequencer: SequencerClient, missing: list[ExecutionPayload]) -> None:
        """Post committed blocks that a sequencer lacks, and wait until it has them. Raises CallFailed."""
        log.info("posting committed blocks", to=sequencer.name, first=missing[0].block_number, count=len(missing))
        for payload in missing:
            await sequencer.post(payload)
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while not _has(await sequencer.poll(), missing[-1].block_hash):
            if time.monotonic() > deadline:
                raise CallFailed(f"it has not inserted the committed block {missing[-1].block_number} yet")
            await asyncio.sleep(CATCH_UP_POLL_SECONDS)

    # --- lines for the user ----------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        log.info(text)
        self.events.append(text)
        self.event_count += 1

    def _warn(self, name: str, text: str) -> None:
        """Say a trouble once, until a leader is started."""
        if self._warned.get(name) != text:
            self._warned[name] = text
            self._say(text)


def _has(report: SequencerReport | None, head: Hash) -> bool:
    return report is not None and report.head_hash == head
