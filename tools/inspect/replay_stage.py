"""The engine stage of `rollup-node replay`.

Starts derivation at a known safe head, compares the attributes that it derives with the blocks of a source, and writes
a line for each block. No engine is written to."""

import time
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.calls.heads import L2BlockInfo, UnreadableBlockError, l2_block_info
from rollup_node.stages.engine.process.bus_clients import L1Client
from rollup_node.stages.engine.starts.start_search import Base, BaseSearch
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested, PeriodicTask, Stage
from rollup_node.stages.messages.base import Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus, DropCounts, Drops
from rollup_node.stages.messages.engine import (
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    L2BlocksRequest,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.config import RollupConfig, end_text
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import UNKNOWN_HASH, L2BlockContent
from rollup_node.tools.inspect.l2_source import BlockSource, EngineSource, FileSource, SourceError
from rollup_node.tools.inspect.replay import REPLAYED, BlockComparison, compare_block
from rollup_node.tools.inspect.row_formats import RowFormat, RowFormatter, write_text
from rollup_node.tools.inspect.status_screen import Patience

RESET = 1
IDLE_SECONDS = 0.5
MAX_QUEUED_REQUESTS = 8


class ReplayConfig(msgspec.Struct, frozen=True):
    """Derives blocks `first` + 1 to `last` on the safe head `first`.

    Known blocks come from `url` or the file `blocks`. L1 is read from block `base` on; None: from where a node would
    start with `url`, or from a channel timeout before the safe origin. Blocks are written to the file descriptor
    `output`, warnings and the failure to `errors`. `timeout`: seconds without progress after which the run fails,
    None for none; `jwt_secret`: for an engine's authenticated port."""

    rollup: RollupConfig
    first: int
    last: int
    url: str | None
    blocks: str | None
    base: int | None
    form: RowFormat
    output: int
    errors: int
    timeout: float | None = None
    jwt_secret: bytes | None = None


class ReplayFailed(Exception):
    """The run cannot continue. The text is the first line for the operator, `more` are those after it."""

    def __init__(self, text: str, *more: str) -> None:
        super().__init__(text)
        self.more = more


class RangeEnded(ReplayFailed):
    """L1 or the chain ends before the range, or L1 does not reach its beginning."""


class NoProgress(ReplayFailed):
    """Nothing came for longer than the timeout."""


FAILURES = (ReplayFailed, SourceError, UnreadableBlockError)


class ReplayStage(Stage):
    """State: the start of the pipeline once it is known, attributes not compared yet, the last result.

    After `exhausted_timeout` seconds in which L1 has no more blocks the run fails."""

    exhausted_timeout = 5.0

    def __init__(self, config: ReplayConfig, bus: Bus, meter: Meter) -> None:
        self._config = config
        self._source: BlockSource | None = None
        self._pipeline_start: PipelineStart | None = None
        self._peer: ProcessId | None = None
        self._derived: AttributesReady | None = None
        self._last_result: AttributesResult | None = None
        self._requests: list[tuple[ProcessId, L2BlocksRequest]] = []
        self._problem = self._l1_problem = ""
        self._l1_exhausted = False
        self._status: DerivationStatus | None = None
        self._rows = RowFormatter(config.form, REPLAYED)
        self._exhausted_at: float | None = None
        self._patience = Patience(config.timeout, time.monotonic())
        self._failure: str | None = None
        self._work = PeriodicTask("replay", self._step)
        self.periodic_tasks = [self._work]
        self._server = bus.serve("engine.blocks", self._on_request)
        bus.serve("engine.control", lambda peer, message: None)
        self._l1 = L1Client(bus, on_block=lambda message: None)
        bus.subscribe("status.derivation", self._on_derivation)
        bus.subscribe("status.l1", self._on_l1)
        self._publisher = bus.publish("status.engine")

    async def close(self) -> None:
        """Close the source."""
        if self._source is not None:
            await self._source.close()

    def reset(self, error: Exception) -> None:
        """End the run: the blocks of the source contradict each other."""
        self._failure = str(error)

    def report(self, problems: tuple[Problem, ...]) -> None:
        """Publish the problems that the runtime sees."""
        self._publisher.set(Health(problems))
        if problems:
            self._problem = str(problems[0])

    # --- received messages ---

    def _on_request(self, peer: ProcessId, message: StartRequest | AttributesReady | L2BlocksRequest) -> None:
        self._peer = peer
        if isinstance(message, StartRequest):
            if message.reset == RESET and message.reason is not None:
                self._failure = f"derivation cannot continue: {message.reason}"
            elif self._pipeline_start is not None:
                self._server.send(peer, self._pipeline_start)
        elif isinstance(message, AttributesReady):
            if self._last_result is not None and message.sequence == self._last_result.sequence:
                self._server.send(peer, self._last_result)
            else:
                self._derived = message
        elif len(self._requests) < MAX_QUEUED_REQUESTS and (peer, message) not in self._requests:
            self._requests.append((peer, message))
        self._work.wake.set()

    def _on_derivation(self, message: DerivationStatus | Drops | DropCounts | QueueLength | Health) -> None:
        if isinstance(message, Health):
            self._problem = str(message.problems[0]) if message.problems else self._problem
        elif isinstance(message, Drops):
            self._check_parent_hash(message)
        elif isinstance(message, DerivationStatus):
            if self._status is None or message.current_l1 != self._status.current_l1:
                self._patience.progress(time.monotonic())
            self._status = message
            self._l1_exhausted = message.idle and message.reset == RESET and self._derived is None
        if isinstance(message, DerivationStatus) and self._l1_exhausted:
            origin = message.current_l1.number if message.current_l1 is not None else None
            self._problem = f"L1 is exhausted at block {origin}"
        self._work.wake.set()

    def _on_l1(self, message: L1Heads | Endpoints | QueueLength | Health) -> None:
        if isinstance(message, Health):
            self._l1_problem = f"L1: {message.problems[0]}" if message.problems else ""

    @property
    def _cause(self) -> str:
        """Why what is waited for does not come; empty if nobody says so."""
        return self._l1_problem

    def _check_parent_hash(self, drops: Drops) -> None:
        """End the run if a batch was dropped for the hash of the safe head because the source lacks that block."""
        result = self._last_result
        if result is None or result.safe_head.hash != UNKNOWN_HASH or not drops.latest:
            return
        if any(drop.needs_parent_hash for drop in drops.latest):
            number = result.safe_head.number
            self._failure = f"the next batch must be checked against the hash of block {number}, which the source lacks"

    # --- the replay ---

    async def _step(self) -> float:
        try:
            return await self._advance()
        except TemporaryError as error:
            if not self._patience.is_over(time.monotonic()):
                raise
            await self._write_failure(error)
            raise ExitRequested(EXIT_REPORTED) from None
        except FAILURES as error:
            await self._write_failure(error)
            raise ExitRequested(EXIT_REPORTED) from None

    async def _advance(self) -> float:
        if self._pipeline_start is None:
            self._pipeline_start = await self._find_start()
            self._patience.progress(time.monotonic())
        while self._requests:
            await self._answer_blocks_request(*self._requests.pop(0))
        derived, self._derived = self._derived, None
        if derived is not None:
            await self._compare(derived)
            return 0.0
        if self._failure is not None:
            raise ReplayFailed(self._failure)
        await self._wait()
        return IDLE_SECONDS

    async def _wait(self) -> None:
        """Raise ReplayFailed when there is nothing to wait for, or no more time."""
        now = time.monotonic()
        self._exhausted_at = (self._exhausted_at or now) if self._l1_exhausted else None
        is_exhausted = self._exhausted_at is not None and now - self._exhausted_at > self.exhausted_timeout
        at = self._last_result.safe_head.number if self._last_result is not None else self._config.first
        reasons = filter(None, (self._problem, "" if self._l1_exhausted else self._cause))
        text = f"nothing is derived after block {at}: {': '.join(reasons) or 'derivation gives no reason'}"
        if is_exhausted:
            raise RangeEnded(text)
        if self._patience.is_over(now):
            raise NoProgress(text)
        await self._write_line(self._patience.notice(now, text))

    async def _find_start(self) -> PipelineStart:
        config = self._config
        if config.rollup.ends_at(config.first):
            raise RangeEnded(f"nothing is derived after block {config.first}: {self._chain_end}")
        if self._source is None:
            self._source = self._open_source()
        safe = await self._known(config.first)
        if safe is None:
            text = f"the L2 source has no block {config.first}, the safe head to begin with: name a block that it has"
            raise ReplayFailed(text)
        if config.url is not None and config.base is None:
            start = await self._search_base(safe)
            return PipelineStart(RESET, safe.ref, safe.config, start.base, start.config)
        number = config.base if config.base is not None else self._default_base(safe)
        await self._warn(
            f"reading begins at L1 block {number} with the system config of L2 block {config.first}; "
            "channels opened before it and system config updates since then are missed"
        )
        base = await self._l1.ref(number)
        if base is None:
            raise RangeEnded(f"L1 block {number}, the first to read, does not exist")
        return PipelineStart(RESET, safe.ref, safe.config, base.id, safe.config)

    def _open_source(self) -> BlockSource:
        config = self._config
        return EngineSource(config.url, config.jwt_secret) if config.url else FileSource.read(Path(config.blocks or ""))

    def _default_base(self, safe: L2BlockInfo) -> int:
        """Return the L1 block one channel timeout before the safe origin."""
        timeout = self._config.rollup.schedule().l1(safe.origin_time).channel_timeout
        return max(self._config.rollup.genesis.l1.number, safe.ref.l1_origin.number - timeout)

    @property
    def _chain_end(self) -> str:
        """Why no block is derived after the last one before a foreign fork [LFT9]."""
        return f"{end_text(self._config.rollup)} ({Code.NETWORK_LEFT.text})"

    async def _search_base(self, safe: L2BlockInfo) -> Base:
        search = BaseSearch(self._config.rollup, safe)
        while True:
            wanted = search.next()
            if isinstance(wanted, Base):
                return wanted
            try:
                search.add_block(wanted, await self._known(wanted))
            except ResetError as error:
                raise ReplayFailed(f"no L1 block to start from was found ({error}): give --from-l1") from None

    async def _known(self, number: int) -> L2BlockInfo | None:
        assert self._source is not None
        payload = await self._source.payload(number)
        return None if payload is None else l2_block_info(payload, self._config.rollup)

    async def _compare(self, derived: AttributesReady) -> None:
        assert self._source is not None
        if derived.reset != RESET or self._is_answered(derived):
            return
        known = await self._source.payload(derived.parent.number + 1)
        comparison = compare_block(self._config.rollup, derived, known)
        self._patience.progress(time.monotonic())
        self._problem, self._exhausted_at = "", None
        await self._write_block(comparison)
        number = comparison.safe_head.number
        if comparison.differences:
            first, *more = comparison.differences
            raise ReplayFailed(f"block {number} differs from the source in {first}", *more)
        if number >= self._config.last:
            raise ExitRequested()
        if self._config.rollup.ends_at(number):
            raise RangeEnded(self._chain_end)
        self._last_result = AttributesResult(
            RESET,
            derived.sequence,
            AttributesOutcome.ACCEPTED,
            comparison.safe_head,
            comparison.safe_config,
            derived.derived_from,
        )
        if self._peer is not None:
            self._server.send(self._peer, self._last_result)

    def _is_answered(self, derived: AttributesReady) -> bool:
        """Whether these attributes repeat the last ones.

        Raises ReplayFailed if derivation was restarted: its sequence then begins again."""
        if self._last_result is None:
            return False
        if derived.parent != self._last_result.safe_head and derived.sequence != self._last_result.sequence:
            raise ReplayFailed("the derivation process was restarted during the run: run the command again")
        return derived.sequence == self._last_result.sequence

    async def _answer_blocks_request(self, peer: ProcessId, request: L2BlocksRequest) -> None:
        assert self._source is not None
        blocks, missing = [], None
        for number in range(request.first, request.last + 1):
            payload = await self._source.payload(number)
            if payload is None:
                missing = number
                break
            blocks.append(L2BlockContent(l2_block_info(payload, self._config.rollup).ref, payload.transactions))
        if missing is not None:
            self._failure = f"a span batch overlaps block {missing}, which the L2 source does not have"
            return
        self._server.send(peer, L2BlocksResponse(RESET, request.first, request.last, tuple(blocks), None))

    # --- output ---

    async def _write_block(self, comparison: BlockComparison) -> None:
        await write_text(self._config.output, self._rows.row(comparison.values))

    async def _warn(self, text: str) -> None:
        await self._write_line(f"rollup-node: warning: {text}\n")

    async def _write_failure(self, error: Exception) -> None:
        more = error.more if isinstance(error, ReplayFailed) else ()
        lines = [f"rollup-node: {error}\n", *(f"rollup-node:   {line}\n" for line in more)]
        await self._write_line("".join(lines))

    async def _write_line(self, text: str) -> None:
        await write_text(self._config.errors, text)


build = ReplayStage
