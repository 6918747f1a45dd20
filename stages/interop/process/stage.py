"""The interop process: runs the rounds over the chains, and has the chains carry out what is decided [VR1 to VR15]."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.interop.config import InteropProcessConfig
from rollup_node.stages.interop.holding import (
    CODES,
    PATIENCE_SECONDS,
    ChainState,
    Obstacle,
    going_back,
    holding_chain,
    obstacle_of,
    verdicts,
)
from rollup_node.stages.interop.message_checks import LogPlace, Stored
from rollup_node.stages.interop.process.database import InteropDatabase, RoundServer
from rollup_node.stages.interop.process.engine_reader import LogBackfill
from rollup_node.stages.interop.process.views import ChainView, L1Reader
from rollup_node.stages.interop.rounds import (
    NO_L1_BLOCK,
    AddLogs,
    Advance,
    AskChains,
    AskL1,
    AskStored,
    ChainBlock,
    Change,
    Deliver,
    Finished,
    InvalidateHeads,
    Observed,
    Rewind,
    StoreState,
    Wait,
    WaitReason,
    advanced,
    anchors,
    backfill,
    diverged,
    next_step,
    next_time,
    outdated,
    start_time,
)
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PeriodicTask, Stage
from rollup_node.stages.messages.base import Health, Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import utc_time
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.interop_messages import BlockLogs
from rollup_node.stages.protocol.types import Hash

log = Logger("interop")

NOT_READY_SECONDS = 0.5
"""Between two looks at chains that have not got their blocks yet; a change of their heads ends it."""
WAIT_SECONDS = 2.0
PROGRESS_SECONDS = 10.0
CLOSE_SECONDS = 0.5
MAX_ROUNDS = 64
"""How many rounds are written at once."""
NOT_STARTED, COLD_START, RUNNING, HALTED = range(4)
"""Values of the metric of the state, which are op-supernode's [LB12]."""

Decision = Advance | InvalidateHeads | Rewind | Deliver | Wait
_OF_L1 = frozenset({WaitReason.L1_UNSETTLED, WaitReason.L1_FINAL})
_BEFORE_FIRST = frozenset({WaitReason.DIVERGED, WaitReason.NO_HISTORY, WaitReason.NO_LOGS})
"""What another backfill may end as long as nothing is verified [VR10]."""


class InteropStage(Stage):
    """State: what is on disk, what is published of it, and what the present round waits for. `clock` is monotonic.

    `_joining` are chains that are in no round, while others are."""

    def __init__(
        self, config: InteropProcessConfig, bus: Bus, meter: Meter, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._meter, self._clock, self._depth = meter, clock, config.backfill_depth
        self._set = config.dependency_set
        self._database = InteropDatabase(config.store_path, self._set)
        self._state, self._decided = self._database.state, self._database.decided
        self._rounds = PeriodicTask("rounds", self._step)
        self.periodic_tasks = [self._rounds, RoundServer(bus, self._set, self._database).task]
        wake = self._rounds.wake.set
        self._chains = {
            chain_id: ChainView(config.engines[chain_id], chain.genesis.l2, bus.within(str(chain_id)), wake)
            for chain_id, chain in self._set.chains.items()
        }
        self._l1 = L1Reader(bus, wake)
        self._publisher = bus.publish("status.interop")
        self._problem: Problem | None = None
        self._condition = LastingCondition(log, clock)
        self._held_by: tuple[Code, str] | None = None
        self._held_since = self._fresh_due = self._progress_due = 0.0
        self._is_ready = False
        self._delivered = self._beginnings = 0
        self._backfill: LogBackfill | None = None
        self._joining: frozenset[int] = frozenset()
        for chain_id in self._chains:
            meter.count("supernode_interop_invalidations_total", 0, chain_id=str(chain_id))
        self._publish()

    async def start(self) -> None:
        """Log what is verified."""
        verified = self._state.verified
        last = "none" if verified is None else utc_time(verified.timestamp)
        chains, begins = ", ".join(map(str, self._set.chains)), utc_time(self._set.activation)
        log.info("verifying the messages between chains", chains=chains, activation=begins, last_round=last)

    async def close(self) -> None:
        """End the reads, then close the database."""
        await self._drop_backfill()
        await asyncio.gather(*(chain.reader.close() for chain in self._chains.values()))
        await self._database.close(CLOSE_SECONDS)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the task, and what the rounds wait for."""
        return (*self.runtime_problems, *(() if self._problem is None else (self._problem,)))

    def publish_health(self) -> None:
        self._publisher.set(Health(self.problems))

    # --- one step ----------------------------------------------------------------------------------------------------

    async def _step(self) -> float:
        """Make one decision, or wait; returns the seconds until the next."""
        decision = await self._decide(self._state)
        if not _is_ordinary(decision):
            # What denies a block, goes back or stops is decided by chains and L1 as they are now.
            if (left := self._fresh_due - self._clock()) > 0:
                return left
            self._forget()
            decision = await self._decide(self._state, fresh=True)
        match decision:
            case Wait(reason=WaitReason.NOT_READY) if not self._is_ready:
                return await self._prepare()
            case Wait():
                return self._wait(decision)
            case Deliver():
                return await self._deliver(decision)
            case Advance():
                await self._advance(await self._with_following(decision))
                return 0.0
            case change:
                await self._carry_out(change)
                return 0.0

    async def _decide(
        self, state: StoreState, unwritten: Mapping[tuple[int, int], BlockLogs] | None = None, *, fresh: bool = False
    ) -> Decision:
        """Bring what the round after a state asks for until it decides; `fresh` asks L1 for all of its blocks again.

        After rounds whose blocks are `unwritten`, it is decided by what chains and L1 have reported [VR4, VR6]."""
        observed = Observed()
        while True:
            match next_step(self._set, state, observed, self._decided.l1_final):
                case AskChains(timestamp=timestamp):
                    blocks = self._known(timestamp) if unwritten is not None else await self._ask_chains(timestamp)
                    observed = msgspec.structs.replace(observed, blocks=blocks)
                case AskL1(numbers=numbers):
                    is_known = unwritten is not None
                    hashes = self._l1.known(numbers) if is_known else await self._l1.hashes(numbers, fresh=fresh)
                    observed = msgspec.structs.replace(observed, l1=hashes)
                case AskStored(places=places):
                    stored = await self._stored(places, unwritten or {})
                    observed = msgspec.structs.replace(observed, stored=stored)
                case decision:
                    if unwritten is None and observed.l1 is not None and not _is_of_l1(decision):
                        await self._follow_finality()
                    return decision

    async def _with_following(self, first: Advance) -> list[Advance]:
        """Return a round with those after it for which all is read already: they are written as one [VR6].

        What the database fails at concerns the round that needs it, which comes next."""
        rounds, logs, state = [first], dict[tuple[int, int], BlockLogs](), self._state
        while len(rounds) < MAX_ROUNDS:
            # Rounds may have many messages; other tasks have their turn between them.
            await asyncio.sleep(0)
            logs |= {(chain, block.logs.block.number): block.logs for chain, block in rounds[-1].blocks.items()}
            state = advanced(state, rounds[-1])
            try:
                decision = await self._decide(state, logs)
            except TemporaryError:
                break
            if not isinstance(decision, Advance):
                break
            rounds.append(decision)
        return rounds

    def _forget(self) -> None:
        """Have all blocks read again."""
        for chain in self._chains.values():
            chain.forget()

    async def _stored(self, places: Collection[LogPlace], written: Mapping[tuple[int, int], BlockLogs]) -> Stored:
        """Return what the database has, or will have once the blocks `written` are in it."""
        new = {place: written[place[:2]].log_hash(place.log_index) or b"" for place in places if place[:2] in written}
        old = [place for place in places if place not in new]
        return {**new, **(await self._database.run(lambda store: store.stored(old)) if old else {})}

    def _known(self, timestamp: int) -> dict[int, ChainBlock | WaitReason]:
        heights = self._set.heights_at(timestamp)
        return {chain_id: self._chains[chain_id].known(number) for chain_id, number in heights.items()}

    async def _ask_chains(self, timestamp: int) -> dict[int, ChainBlock | WaitReason]:
        """Return the answers of all chains, asked at once; none before the start is prepared."""
        if not self._is_ready:
            return {}
        heights, begun = self._set.heights_at(timestamp), self._set.begun_at(timestamp)
        observe = [self._chains[chain_id].observe(heights[chain_id]) for chain_id in begun]
        return dict(zip(begun, await asyncio.gather(*observe), strict=True))

    async def _advance(self, rounds: Sequence[Advance]) -> None:
        """Write verified rounds, then tell the chains [VR6]."""
        await self._write(*rounds)
        self._count("advance", len(rounds))
        self._meter.count("supernode_interop_timestamps_verified_total", len(rounds))
        self._meter.set("supernode_interop_verified_timestamp", rounds[-1].timestamp)
        self._set_activity(RUNNING)
        self._joining = frozenset()
        await self._follow_finality()
        # Of the L1 block up to which rounds are final there may be later ones. Each has a head of every chain that has
        # begun; one before the first round has blocks that are in none.
        if rounds[-1].l1.number <= self._decided.l1_final:
            self._decided = msgspec.structs.replace(self._decided, final=self._state.tips)
            self._publish()
        self._meet(None)

    async def _carry_out(self, change: InvalidateHeads | Rewind) -> None:
        """Write a decision, which is delivered next [VR6]."""
        self._state, self._decided = await self._database.run(lambda store: store.decide(change))
        match change:
            case InvalidateHeads(timestamp=timestamp, heads=heads):
                self._count("invalidate")
                at = utc_time(timestamp)
                for head in heads:
                    self._meter.count("supernode_interop_invalidations_total", chain_id=str(head.chain_id))
                    text = "a block is invalid: its chain derives its deposits alone in its place"
                    code, about = Code.INTEROP_INVALID.text, head.chain_id
                    log.warn(text, code=code, chain=about, block=head.block, time=at, reason=head.reason)
            case Rewind(first=first):
                self._count("rewind")
                self._meter.count("supernode_interop_rewinds_total")
                log.debug("L1 has left a block that verified blocks depend on", first=utc_time(first))
        self._meet(None)

    async def _write(self, *changes: Change) -> None:
        self._state = await self._database.run(lambda store: store.write(*changes))
        self._publish()

    async def _deliver(self, deliver: Deliver) -> float:
        """Publish the pending transition, and look whether its chains have carried it out [VR6, IV4, RA1]."""
        transition, number = deliver.transition, self._decided.transition
        if isinstance(transition, Rewind) and self._delivered != number:
            text = "L1 has left a block that verified blocks depend on: all chains go back"
            log.warn(text, code=Code.INTEROP_REWIND.text, first=utc_time(transition.first))
        self._delivered = number
        self._publish()
        left = [chain_id for chain_id in deliver.chains if self._chains[chain_id].status.transition < number]
        if not left:
            self._forget()
            await self._write(Finished())
            self._meet(None)
            return 0.0
        self._meet(going_back(left[0]))
        return WAIT_SECONDS

    async def _follow_finality(self) -> None:
        """Take the last round that is final, while L1 has the last round's L1 block [LB4].

        Of later rounds nothing follows: L1 may have other blocks below its finalized one by then."""
        number = min(self._l1.final, max((block.number for block in anchors(self._state)), default=0))
        if number > self._decided.l1_final:
            final = self._decided.final
            self._decided = await self._database.run(lambda store: store.finalize(number))
            if final != self._decided.final:
                self._publish()

    # --- before the rounds -------------------------------------------------------------------------------------------

    async def _prepare(self) -> float:
        """Check what is stored against the chains, and read the logs of before the first round [VR10, VR14]."""
        self._set_activity(COLD_START)
        if self._backfill is None:
            until = self._backfill_end()
            if until is None:
                self._meet(holding_chain(self._set, self._time, self._chain_states()))
                return NOT_READY_SECONDS
            final = {
                id_: block.number
                for id_, chain in self._chains.items()
                if (block := chain.status.finalized) is not None
            }
            verified, last = self._state.verified, None
            if verified is not None:
                last = await self._database.run(lambda store: store.round_at(verified.timestamp))
            if last is not None and (wait := outdated(last.heads, final)) is not None:
                return self._wait(wait)
            canonical = await self._canonical_tips()
            members = {} if last is None else {id_: hashed for id_, hashed in canonical.items() if id_ in last.heads}
            self._joining = frozenset(() if last is None else self._chains.keys() - last.heads.keys())
            numbers = () if verified is None or verified.l1 == NO_L1_BLOCK else (verified.l1.number,)
            if (wait := diverged(self._state, members, await self._l1.hashes(numbers))) is not None:
                return self._wait(wait)
            self._backfill = await self._plan(until, canonical)
        if not self._backfill.is_complete:
            await self._read_logs(self._backfill)
            return 0.0
        await self._drop_backfill()
        self._is_ready = True
        self._set_activity(RUNNING)
        return 0.0

    async def _canonical_tips(self) -> dict[int, Hash | None]:
        """Return the hashes that the chains have now at the numbers of the last stored blocks."""
        tips = {chain_id: tip.number for chain_id, tip in self._state.tips.items() if chain_id in self._chains}
        reads = [self._chains[chain_id].reader.block_hash(number) for chain_id, number in tips.items()]
        return dict(zip(tips, await asyncio.gather(*reads), strict=True))

    def _backfill_end(self) -> int | None:
        """Return the time up to which blocks count as verified; None until all chains are that far [VR10].

        What the chains have derived since their start is verified, however long it takes until the logs are read,
        unless the rounds cannot begin there. After a round, those of a chain that joins are read up to that one."""
        views = self._chains.items()
        heads = {chain_id: head for chain_id, chain in views if (head := chain.local_safe) is not None}
        starts = {chain_id: start for chain_id, chain in views if (start := chain.start) is not None}
        if len(heads) < len(self._chains):
            return None
        if (verified := self._state.verified) is not None:
            heights, tips = self._set.heights_at(verified.timestamp), self._state.tips
            joins = [
                chain_id for chain_id in heads if chain_id not in tips or tips[chain_id].number < heights[chain_id]
            ]
            is_safe = all(heads[chain_id].number >= heights[chain_id] for chain_id in joins)
            return verified.timestamp if is_safe else None
        if self._beginnings > 1:
            return min(head.timestamp for head in heads.values())
        if self._beginnings == 0:
            return min(start.timestamp for start in starts.values())
        end = start_time(self._set, {chain_id: start.number for chain_id, start in starts.items()})
        heights = self._set.heights_at(end)
        return end if all(head.number >= heights[chain_id] for chain_id, head in heads.items()) else None

    async def _plan(self, until: int, canonical: dict[int, Hash | None]) -> LogBackfill:
        """Return what is to be read; of a chain without that, what is stored above the end is removed here."""
        ranges = backfill(self._set, self._state, until, self._depth, canonical)
        if complete := [AddLogs(chain_id, (), of.keep) for chain_id, of in ranges.items() if of.first > of.last]:
            await self._write(*complete)
        readers = {chain_id: chain.reader for chain_id, chain in self._chains.items()}
        return LogBackfill(readers, ranges, self._write, self._clock)

    async def _read_logs(self, logs: LogBackfill) -> None:
        """Read and write the next blocks, and show how far it is; after an error it is planned again."""
        problem = Problem(Code.INTEROP_BACKFILL, "rounds", logs.progress())
        self._set_problem(problem, is_logged=False)
        if (now := self._clock()) >= self._progress_due:
            self._progress_due = now + PROGRESS_SECONDS
            log.info("reading the logs of before the first round", progress=logs.progress())
        try:
            await logs.step()
        except BaseException:
            await self._drop_backfill()
            raise
        if logs.is_complete:
            log.info("the logs of before the first round are read", blocks=logs.total)
            self._set_problem(None)

    async def _drop_backfill(self) -> None:
        if self._backfill is not None:
            await self._backfill.close()
            self._backfill = None

    # --- what is shown -----------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        message = verdicts(self._set, self._state, self._decided)
        self._publisher.set(message, urgent=self._state.pending is not None)

    def _wait(self, wait: Wait) -> float:
        """Say what the round waits for, if it is no longer ordinary; returns the seconds until it is repeated."""
        self._count("wait")
        obstacle = obstacle_of(self._set, wait, self._time, self._chain_states())
        if wait.reason is WaitReason.DIVERGED and wait.chain_id in self._joining:
            # It is in no round yet: what was read of it is read again [VR10].
            self._is_ready = False
        elif self._state.verified is None and wait.reason in _BEFORE_FIRST:
            self._is_ready = False
            self._beginnings += wait.reason is not WaitReason.DIVERGED
            obstacle = msgspec.structs.replace(obstacle, patience=PATIENCE_SECONDS) if obstacle is not None else None
        self._meet(obstacle)
        if wait.reason in CODES and self._is_ready:
            self._set_activity(HALTED)
        if not _is_ordinary(wait):
            self._fresh_due = self._clock() + WAIT_SECONDS
        return NOT_READY_SECONDS if wait.reason is WaitReason.NOT_READY else WAIT_SECONDS

    @property
    def _time(self) -> int:
        return next_time(self._set, self._state)

    def _chain_states(self) -> dict[int, ChainState]:
        return {chain_id: ChainState(chain.local_safe, chain.error) for chain_id, chain in self._chains.items()}

    def _meet(self, obstacle: Obstacle | None) -> None:
        """Take what holds the rounds now, which is a problem once it is no longer ordinary; None if nothing does."""
        key = None if obstacle is None else (obstacle.code, obstacle.subject)
        if key != self._held_by:
            self._held_by, self._held_since = key, self._clock()
        self._set_problem(None if obstacle is None else obstacle.problem(self._clock() - self._held_since))

    def _set_problem(self, problem: Problem | None, *, is_logged: bool = True) -> None:
        if problem is None:
            self._condition.end("the rounds go on")
        elif is_logged and problem.code is not None:
            self._condition.report(problem.code, problem.text, about=problem.subject)
        if problem != self._problem:
            self._problem = problem
            self.publish_health()

    def _count(self, decision: str, times: int = 1) -> None:
        self._meter.count("supernode_interop_round_decisions_total", times, decision=decision)

    def _set_activity(self, state: int) -> None:
        self._meter.set("supernode_interop_activity_state", state)


def _is_of_l1(decision: Decision) -> bool:
    """Return whether L1 has not the blocks that decisions depend on, or not all of them."""
    return isinstance(decision, Rewind) or (isinstance(decision, Wait) and decision.reason in _OF_L1)


def _is_ordinary(decision: Decision) -> bool:
    if isinstance(decision, Wait):
        return decision.reason not in _OF_L1 and decision.reason is not WaitReason.DIVERGED
    return isinstance(decision, Advance | Deliver)


build = InteropStage
