"""In the engine's place for `rollup-node replay`: gives derivation a known safe head, takes its attributes, compares
them with the blocks of a source, and writes them down. No engine is written to."""

import time
from pathlib import Path
from typing import Any

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.node.inspect.l2_source import BlockSource, EngineSource, FileSource, SourceError
from rollup_node.node.inspect.replay import UNKNOWN_HASH, Judged, judge
from rollup_node.stages.engine.api.l2_block_info import L2BlockInfo, UnreadableBlockError, l2_block_info
from rollup_node.stages.engine.machines.base_search import Base, BaseSearch
from rollup_node.stages.engine.process.l1_client import L1Client
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.output import write_text
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested, PeriodicTask
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.derivation import DerivationStatus, Drops
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
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import L2BlockContent

RESET = 1
IDLE_SECONDS = 0.5
PATIENCE_SECONDS = 20.0
IDLE_PATIENCE_SECONDS = 5.0


class ReplayConfig(msgspec.Struct, frozen=True):
    """Derives blocks `first` + 1 to `last` on the safe head `first`. Blocks come from `url` or from the file `blocks`;
    reading begins at L1 block `base`, or where the source says. Lines go to the descriptor `output`, warnings and the
    line of a failure to `errors`."""

    rollup: RollupConfig
    first: int
    last: int
    url: str | None
    blocks: str | None
    base: int | None
    as_json: bool
    output: int
    errors: int


class GiveUp(Exception):
    """The run cannot go on; the text says why, in one line, which others may follow."""

    def __init__(self, text: str, *more: str) -> None:
        super().__init__(text)
        self.more = more


FAILURES = (GiveUp, SourceError, UnreadableBlockError)


class ReplayStage:
    """State: the start once it is known, the attributes that wait to be judged, the last answer."""

    def __init__(self, config: ReplayConfig, bus: Bus, meter: Meter) -> None:
        self._config = config
        self._source: BlockSource | None = None
        self._begin: PipelineStart | None = None
        self._peer: ProcessId | None = None
        self._derived: AttributesReady | None = None
        self._applied: AttributesResult | None = None
        self._reads: list[tuple[ProcessId, L2BlocksRequest]] = []
        self._problem = ""
        self._l1_used_up = False
        self._status: DerivationStatus | None = None
        self._moved_at = time.monotonic()
        self._give_up: str | None = None
        self._work = PeriodicTask("replay", self._step)
        self.periodic_tasks = [self._work]
        self._server = bus.serve("engine.blocks", self._take)
        bus.serve("engine.control", lambda peer, message: None)
        self._l1 = L1Client(bus, on_block=lambda message: None)
        bus.subscribe("status.derivation", self._on_derivation)
        bus.subscribe("status.l1", self._on_l1)
        self._publisher = bus.publish("status.engine")

    async def start(self) -> None:
        """Nothing to open: the source is read in the first step."""

    async def close(self) -> None:
        """Closes the source."""
        if self._source is not None:
            await self._source.close()

    def reset(self, error: Exception) -> None:
        """A contradiction in the source."""
        self._give_up = str(error)

    def report(self, problems: tuple[str, ...]) -> None:
        """Tells what is wrong."""
        self._publisher.set(Health(problems))
        if problems:
            self._problem = problems[0]

    # --- what comes in ---

    def _take(self, peer: ProcessId, message: Any) -> None:
        self._peer = peer
        if isinstance(message, StartRequest):
            if message.reset == RESET and message.reason is not None:
                self._give_up = f"derivation cannot go on: {message.reason}"
            elif self._begin is not None:
                self._server.send(peer, self._begin)
        elif isinstance(message, AttributesReady):
            if self._applied is not None and message.sequence == self._applied.sequence:
                self._server.send(peer, self._applied)
            else:
                self._derived = message
        elif len(self._reads) < 8 and (peer, message) not in self._reads:
            self._reads.append((peer, message))
        self._work.wake.set()

    def _on_derivation(self, message: DerivationStatus | Drops | Health) -> None:
        if isinstance(message, Health):
            self._problem = message.problems[0] if message.problems else self._problem
        elif isinstance(message, Drops):
            self._need_hash(message)
        else:
            if self._status is None or message.current_l1 != self._status.current_l1:
                self._moved_at = time.monotonic()
            self._status = message
            self._l1_used_up = message.idle and message.reset == RESET and self._derived is None
        if isinstance(message, DerivationStatus) and self._l1_used_up:
            origin = message.current_l1.number if message.current_l1 is not None else None
            self._problem = f"L1 is used up at block {origin}"
        self._work.wake.set()

    def _on_l1(self, message: L1Heads | Health) -> None:
        if isinstance(message, Health) and message.problems:
            self._problem = f"L1: {message.problems[0]}"

    def _need_hash(self, drops: Drops) -> None:
        """Whether a batch was dropped only because the source does not have the safe head."""
        applied = self._applied
        if applied is None or applied.safe_head.hash != UNKNOWN_HASH or not drops.latest:
            return
        if any(drop.needs_parent_hash for drop in drops.latest):
            number = applied.safe_head.number
            self._give_up = f"the next batch must be checked against the hash of block {number}, which the source lacks"

    # --- the work ---

    async def _step(self) -> float:
        try:
            return await self._advance()
        except FAILURES as error:
            await self._fail(error)
            raise ExitRequested(EXIT_REPORTED) from None

    async def _advance(self) -> float:
        if self._begin is None:
            self._begin = await self._find_start()
            self._moved_at = time.monotonic()
        while self._reads:
            await self._answer_read(*self._reads.pop(0))
        derived, self._derived = self._derived, None
        if derived is not None:
            await self._judge(derived)
            return 0.0
        if self._give_up is not None:
            raise GiveUp(self._give_up)
        patience = IDLE_PATIENCE_SECONDS if self._l1_used_up else PATIENCE_SECONDS
        if time.monotonic() - self._moved_at > patience:
            at = self._applied.safe_head.number if self._applied is not None else self._config.first
            raise GiveUp(f"nothing is derived after block {at}: {self._problem or 'derivation gives no reason'}")
        return IDLE_SECONDS

    async def _find_start(self) -> PipelineStart:
        config = self._config
        if self._source is None:
            self._source = EngineSource(config.url) if config.url else FileSource.read(Path(config.blocks or ""))
        safe = await self._known(config.first)
        if safe is None:
            raise GiveUp(f"the L2 source has no block {config.first}, which is to be the safe head")
        if config.url is not None and config.base is None:
            found = await self._search_base(safe)
            return PipelineStart(RESET, safe.ref, safe.config, found.base, found.config)
        number = config.base if config.base is not None else self._default_base(safe)
        await self._warn(
            f"reading begins at L1 block {number} with the system config of L2 block {config.first}; "
            "a channel that was open there already, or a change of the config since, is missed"
        )
        base = await self._l1.ref(number)
        if base is None:
            raise GiveUp(f"there is no L1 block {number} to begin with")
        return PipelineStart(RESET, safe.ref, safe.config, base.id, safe.config)

    def _default_base(self, safe: L2BlockInfo) -> int:
        """The safe origin less the channel timeout of its time."""
        timeout = self._config.rollup.schedule().l1(safe.origin_time).channel_timeout
        return max(self._config.rollup.genesis.l1.number, safe.ref.l1_origin.number - timeout)

    async def _search_base(self, safe: L2BlockInfo) -> Base:
        search = BaseSearch(self._config.rollup, safe)
        while True:
            wanted = search.next()
            if isinstance(wanted, Base):
                return wanted
            try:
                search.add_block(wanted.number, await self._known(wanted.number))
            except ResetError as error:
                raise GiveUp(f"no place to begin is found ({error}): give --from-l1") from None

    async def _known(self, number: int) -> L2BlockInfo | None:
        assert self._source is not None
        payload = await self._source.payload(number)
        return None if payload is None else l2_block_info(payload, self._config.rollup)

    async def _judge(self, derived: AttributesReady) -> None:
        assert self._source is not None
        if derived.reset != RESET or self._is_answered(derived):
            return
        known = await self._source.payload(derived.parent.number + 1)
        judged = judge(self._config.rollup, derived, known)
        self._moved_at, self._problem = time.monotonic(), ""
        await self._tell(judged)
        number = judged.safe_head.number
        if judged.differences:
            raise GiveUp(f"block {number} differs from the source in {judged.differences[0]}", *judged.differences[1:])
        if number >= self._config.last:
            raise ExitRequested()
        self._applied = AttributesResult(
            RESET, derived.sequence, AttributesOutcome.ACCEPTED, judged.safe_head, judged.safe_config
        )
        if self._peer is not None:
            self._server.send(self._peer, self._applied)

    def _is_answered(self, derived: AttributesReady) -> bool:
        """Whether this comes again; a restarted derivation counts from the beginning and is not followed."""
        if self._applied is None:
            return False
        if derived.parent != self._applied.safe_head and derived.sequence != self._applied.sequence:
            raise GiveUp("the derivation process was restarted in mid-run: run the command again")
        return derived.sequence == self._applied.sequence

    async def _answer_read(self, peer: ProcessId, want: L2BlocksRequest) -> None:
        assert self._source is not None
        blocks, missing = [], None
        for number in range(want.first, want.last + 1):
            payload = await self._source.payload(number)
            if payload is None:
                missing = number
                break
            blocks.append(L2BlockContent(l2_block_info(payload, self._config.rollup).ref, payload.transactions))
        if missing is not None:
            self._give_up = f"a span batch overlaps block {missing}, which the L2 source does not have"
            return
        self._server.send(peer, L2BlocksResponse(RESET, want.first, want.last, tuple(blocks), None))

    # --- output ---

    async def _tell(self, judged: Judged) -> None:
        await write_text(self._config.output, self._line(judged))

    def _line(self, judged: Judged) -> str:
        values = judged.values
        if self._config.as_json:
            return orjson.dumps(values).decode() + "\n"
        state = "differs" if judged.differences else "equal" if values["hash"] else "not in the source"
        return (
            f"block {values['number']}  time {values['timestamp']}  epoch {values['epoch']['number']}  "
            f"sequence {values['sequence_number']}  transactions {len(values['transactions'])}  {state}\n"
        )

    async def _warn(self, text: str) -> None:
        await write_text(self._config.errors, f"rollup-node: warning: {text}\n")

    async def _fail(self, error: Exception) -> None:
        more = error.more if isinstance(error, GiveUp) else ()
        lines = [f"rollup-node: {error}\n", *(f"rollup-node:   {line}\n" for line in more)]
        await write_text(self._config.errors, "".join(lines))


def build(config: ReplayConfig, bus: Bus, meter: Meter) -> ReplayStage:
    """The stage for the runtime."""
    return ReplayStage(config, bus, meter)
