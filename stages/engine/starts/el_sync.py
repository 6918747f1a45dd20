"""EL sync: the execution engine fetches the chain by itself [ELS1 to ELS12].

Derivation starts behind the block where that ends.

| state                  | what happens                                          | next state                         |
|------------------------|-------------------------------------------------------|------------------------------------|
| will start             | the engine's labels are read, a block is waited for   | started [ELS3]                     |
|                        |                                                       | finished [ELS3, ELS8, ELS9]        |
| started                | the target goes to the engine, again in 5 s or when   | finished not finalized [ELS4]      |
|                        | a higher block arrives [ELS2, ELS10]                  | finished [ELS9]                    |
| finished not finalized | the heads behind the target are looked up [ELS5], and | finished, by the confirmed start   |
|                        | a pipeline start is found and confirmed               | started, if the engine syncs again |
|                        |                                                       | will start, by a reset             |
| finished               | the node works as in CL mode [ELS7]                   |                                    |

Nothing of this is stored: another life of the process, or a reset, reads the engine's labels again. Times are monotonic
seconds, `unix` is Unix seconds."""

from collections.abc import Generator
from enum import Enum
from math import ceil, inf
from typing import TypeVar

from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.actions import LogLine
from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads, UnreadableBlockError, l2_block_info
from rollup_node.stages.engine.calls.safe_head_entries import (
    FindSafeHeads,
    FoundSafeHeads,
    KeepSafeHeads,
    SafeHeadEntry,
)
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.heads.unsafe_chain import DroppedUnsafeBlock
from rollup_node.stages.engine.heads.verification import Verification
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Hash, L1BlockRef, L2BlockRef

RESEND_SECONDS = 5.0
LISTEN_SECONDS = 60.0
"""How long a block is waited for by a node that can go on without one [ELS8, ELS9]."""
RECENT_SECONDS = 600
"""A head of this age is that of an engine which was at the tip a moment ago."""
STALE_TARGET_SECONDS = 60.0
LOOKED_AT = 64
"""How many recorded safe heads are looked at: L1 replaces no more of its last blocks [SDB9]."""
LABELS: tuple[engine_api.Label, ...] = ("finalized", "safe", "latest")


T = TypeVar("T")
RecordCall = FindSafeHeads | engine_api.GetBlockRef | GetL1BlockRef | KeepSafeHeads
Lookup = Generator[RecordCall, object, T]
"""Yields the calls that are due, one at a time, and is sent their answers."""


class ELSyncState(Enum):
    """How far EL sync is [ELS1]."""

    WILL_START = "will start"
    STARTED = "started"
    FINISHED_NOT_FINALIZED = "finished, not finalized"
    FINISHED = "finished"


Event = LogLine | DroppedUnsafeBlock


def offset_blocks(seconds: float, block_time: int) -> int:
    """Return the blocks of `syncmode.offset-el-safe`, rounded up [ELS5]."""
    return ceil(int(seconds) / block_time) if seconds > 0 and block_time else 0


class ELSync:
    """`target` is the highest block known, which the engine is to sync to.

    `rival` the last block since that is not above it; `attempt` the block whose insertion and forkchoice update are
    under way, `chosen` once it is inserted; `synced` the block where the sync has ended, `heads` those behind it once
    they are looked up. `events` wait for the core. `offset` is in blocks; it shrinks, for one try, where the engine has
    pruned its blocks [ELS12]. With `records` safe heads are recorded. `verification` has the last verified block.
    `_may_lack`: that the engine has no such block is an answer."""

    def __init__(self, config: EngineConfig, records: bool, verification: Verification) -> None:
        self._rollup, self._config, self._records = config.rollup, config, records
        self._verification = verification
        self.state = ELSyncState.WILL_START if config.el_sync else ELSyncState.FINISHED
        self.events: list[Event] = []
        self.target: ExecutionPayload | None = None
        self.rival: ExecutionPayload | None = None
        self.offset = self._full_offset = offset_blocks(config.offset_el_safe, config.rollup.block_time)
        self.started_at: float | None = None
        self._target_at = self._listen_until = inf
        self._kind = config.engine_kind if config.engine_kind_given else None  # the engine's own name decides [ENG41]
        self._begin()

    def _begin(self) -> None:
        self.labels: dict[engine_api.Label, L2BlockRef | None] = {}
        self.attempt: ExecutionPayload | None = None
        self.chosen = False
        self.sent: Hash | None = None
        self.resend_at = 0.0
        self.synced: L2BlockRef | None = None
        self._record_usable = True
        self._end_lookup()

    def _end_lookup(self) -> None:
        self.heads: Heads | None = None
        self._lookup: Lookup[None] | None = None
        self._due: RecordCall | None = None
        self._may_lack = self._from_record = False

    # --- what can be seen ------------------------------------------------------------------------------------------

    @property
    def in_progress(self) -> bool:
        """Whether derivation does not step [ELS1]."""
        return self.state is not ELSyncState.FINISHED

    @property
    def needs_start(self) -> bool:
        """Whether a pipeline start can be searched for: by labels, or behind the synced block if there are `heads`."""
        return not self.in_progress or self.heads is not None

    @property
    def waiting_for(self) -> str:
        """Operator-facing status line."""
        if self.state is ELSyncState.WILL_START:
            return "waiting for an unsafe block from peers or admin_postUnsafePayload to sync to"
        if self.state is ELSyncState.STARTED and self.target is not None:
            return f"the execution engine syncs to block {self.target.block_number}"
        if self.state is ELSyncState.STARTED:
            return "waiting for another unsafe block to sync to"
        return "looking up the heads behind the synced block"

    def wait_until(self) -> float | None:
        """Return when something is due by time alone."""
        if self.state is ELSyncState.STARTED and self.target is not None:
            stale_at = inf if self.rival is None else self._target_at + STALE_TARGET_SECONDS
            return min(self.resend_at, self._listen_until, stale_at)
        waits = self.state is ELSyncState.WILL_START and self._listen_until != inf
        return self._listen_until if waits else None

    # --- what comes in ---------------------------------------------------------------------------------------------

    def offer(self, payload: ExecutionPayload) -> None:
        """Take an unsafe block. The highest one is the target; after the sync they wait in the queue [ELS2]."""
        latest = self.labels.get("latest")
        is_lower = latest is not None and payload.block_number <= latest.number and payload.block_hash != latest.hash
        if not self.in_progress or is_lower:
            return
        if self.target is None or payload.block_number > self.target.block_number:
            self.target, self.rival, self._target_at = payload, None, inf
        elif payload.block_hash != self.target.block_hash:
            self.rival = payload

    def restart(self) -> None:
        """Note a reset before the end: the engine's labels are read again. A target stays."""
        if self.in_progress:
            self.state = ELSyncState.WILL_START
            self._listen_until = inf
            self.offset = self._full_offset
            self._begin()

    def failed(self) -> None:
        """Work failed: labels are read again, and the next attempt is made with the target of that time."""
        self.attempt = self.sent = None
        if self.state is ELSyncState.WILL_START:
            self.labels.clear()
        if self.state is ELSyncState.FINISHED_NOT_FINALIZED and self.synced is None:
            self.state = ELSyncState.STARTED

    def take_unreadable(self, call: object) -> bool:
        """Take a block that is incomplete, or of before the rollup; whether that is an answer, as for a label."""
        is_label = isinstance(call, engine_api.GetBlockRef) and isinstance(call.name, str)
        if self.state is ELSyncState.WILL_START and is_label:
            self.answer(call, None, 0.0)
            return True
        self.lacks_block()
        return False

    def lacks_block(self) -> None:
        """Note that the engine lacks a block behind the synced one: the heads are set nearer to it [ELS12]."""
        if self.state is not ELSyncState.FINISHED_NOT_FINALIZED or self.synced is None:
            return
        if self._may_lack:
            self._look_on(None)
            return
        if self._from_record:
            self._record_usable = False
        elif self.offset == 0:
            self.state, self.synced, self.sent = ELSyncState.STARTED, None, None
        else:
            self.offset //= 2
        self._end_lookup()

    def finish(self) -> None:
        """Note that the engine has confirmed the heads [ELS4]."""
        self.state = ELSyncState.FINISHED
        self.target = self.rival = None
        self._begin()

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self.events = self.events, []
        return events

    # --- calls -----------------------------------------------------------------------------------------------------

    def next(self, monotonic: float, unix: float) -> engine_api.EngineCall | RecordCall | None:
        if self.state is ELSyncState.WILL_START:
            if self._kind is None:
                return engine_api.GetIdentity()
            missing = [label for label in LABELS if label not in self.labels]
            if missing:
                return engine_api.GetBlockRef(missing[0])
            self._decide(monotonic, unix)
        if self.attempt is not None:
            return (
                engine_api.ForkchoiceUpdate(_head_alone(self.attempt))
                if self.chosen
                else engine_api.NewPayload(self.attempt)
            )
        if self.state is ELSyncState.STARTED:
            return self._begin_attempt(monotonic)
        return self._next_lookup() if self.state is ELSyncState.FINISHED_NOT_FINALIZED else None

    def answer(self, call: object, answer: object, monotonic: float) -> None:
        """Take the answer to the call that was due. Raises TemporaryError when it is to be made again."""
        match call:
            case FindSafeHeads() | KeepSafeHeads():
                if not isinstance(answer, FoundSafeHeads if isinstance(call, FindSafeHeads) else bool):
                    raise TemporaryError("the answer is not one to this call")
                self._look_on(answer)
            case GetL1BlockRef(number=number):
                if not isinstance(answer, L1BlockRef):
                    raise TemporaryError(f"L1 does not have block {number} yet, with which a block became safe")
                self._look_on(answer)
            case engine_api.GetIdentity():
                named = answer.kind if isinstance(answer, EngineIdentity) else None
                self._kind = named or self._config.engine_kind
            case engine_api.GetBlockRef():
                if answer is not None and not isinstance(answer, L2BlockRef):
                    raise TemporaryError("the engine's answer is not a block", Code.ENGINE_ANSWER)
                if isinstance(call.name, str):
                    self.labels[call.name] = answer
                else:
                    self._look_on(answer)
            case engine_api.NewPayload():
                self._take_insertion(call.payload, answer)
            case engine_api.ForkchoiceUpdate():
                self._take_choice(answer, monotonic)

    # --- will start ------------------------------------------------------------------------------------------------

    def _decide(self, monotonic: float, unix: float) -> None:
        latest, finalized = self._latest, self._known_final
        has_finality = finalized is not None
        if has_finality and self._kind == "geth":
            self._skip(f"the engine has the finalized block {finalized}")
            return
        target = self.target
        if self.rival is not None and self.rival.block_number <= latest.number:
            self.rival = None
        if target is not None and (target.block_number > latest.number or target.block_hash == latest.hash):
            self.state = ELSyncState.STARTED
            near = target.timestamp - latest.timestamp <= RECENT_SECONDS
            self._listen_until = monotonic + LISTEN_SECONDS if self._config.sequencer_enabled and near else inf
            if self.started_at is None:
                self.started_at = monotonic
            fields: Fields = {"number": target.block_number, "hash": to_hex(target.block_hash)}
            self.events.append(LogLine("info", "starting EL sync", None, fields))
            return
        self.target = None
        if self._listen_until == inf:
            self._listen_until = monotonic + self._patience(latest, has_finality, unix)
        if monotonic >= self._listen_until:
            self._skip(f"no unsafe block above the engine's head {latest} is known")

    def _patience(self, latest: L2BlockRef, has_finality: bool, unix: float) -> float:
        """For how long a first block is waited for [ELS8, ELS9]."""
        recent = latest.timestamp + RECENT_SECONDS >= unix
        if self._config.sequencer_enabled:
            return 0.0 if recent else LISTEN_SECONDS
        above_genesis = latest.number > self._rollup.genesis.l2.number
        return LISTEN_SECONDS if has_finality or (recent and above_genesis) else inf

    def _skip(self, reason: str) -> None:
        self.state = ELSyncState.FINISHED
        self._begin()
        self.target = self.rival = None
        self.events.append(LogLine("info", "skipping EL sync", None, {"reason": reason}))

    @property
    def _latest(self) -> L2BlockRef:
        """The engine's head; the rollup's genesis for an engine whose blocks are all from before it."""
        genesis = self._rollup.genesis
        head = self.labels["latest"]
        return head or L2BlockRef(genesis.l2.hash, genesis.l2.number, ZERO_HASH, genesis.l2_time, genesis.l1, 0)

    # --- started ---------------------------------------------------------------------------------------------------

    def _begin_attempt(self, monotonic: float) -> engine_api.EngineCall | None:
        """Return the insertion of the target, if it was not sent before or not for a while [ELS10]."""
        if monotonic >= self._listen_until:
            self._skip("the engine does not get the last unsafe blocks, and this node sequences")  # [ELS9]
            return None
        self._replace_stale_target(monotonic)
        target = self.target
        if target is None or (target.block_hash == self.sent and monotonic < self.resend_at):
            return None
        try:
            l2_block_info(target, self._rollup)
        except UnreadableBlockError as error:
            self._drop(target, str(error))
            return None
        self.attempt, self.chosen = target, False
        return engine_api.NewPayload(target)

    def _replace_stale_target(self, monotonic: float) -> None:
        """Give up a tip that has had no successor for a minute, while lower blocks arrive [ELS11]."""
        if self.target is not None and self._target_at == inf:
            self._target_at = monotonic
        if self.rival is None or monotonic < self._target_at + STALE_TARGET_SECONDS:
            return
        self.target, self.rival, self._target_at = self.rival, None, monotonic

    def _take_insertion(self, payload: ExecutionPayload, answer: object) -> None:
        result = engine_api.insert_result(answer)
        if result.status is engine_api.CallStatus.INVALID:
            self._drop(payload, result.text)
            return
        if result.status is not engine_api.CallStatus.DONE and not engine_api.is_syncing(answer):
            raise TemporaryError(f"unsafe block {payload.block_number}: {result.text}", Code.ENGINE_ANSWER)
        if result.status is engine_api.CallStatus.DONE:
            self.state = ELSyncState.FINISHED_NOT_FINALIZED
        self.chosen = True

    def _take_choice(self, answer: object, monotonic: float) -> None:
        payload = self.attempt
        if payload is None:
            return
        result = engine_api.forkchoice_result(answer)
        if isinstance(answer, engine_api.ForkchoiceAnswer) and answer.status == "INVALID":
            self._drop(payload, result.text)
        elif engine_api.is_syncing(answer):
            self.state, self.attempt = ELSyncState.STARTED, None
            self.sent, self.resend_at = payload.block_hash, monotonic + RESEND_SECONDS
        elif result.status is engine_api.CallStatus.DONE:
            self.state, self.attempt = ELSyncState.FINISHED_NOT_FINALIZED, None
            self.synced = l2_block_info(payload, self._rollup).ref
            self._listen_until = inf
        else:
            raise TemporaryError(result.text, Code.ENGINE_ANSWER)

    def _drop(self, payload: ExecutionPayload, reason: str) -> None:
        self.state, self.attempt, self.sent = ELSyncState.STARTED, None, None
        if self.target is not None and self.target.block_hash == payload.block_hash:
            self.target, self.rival = self.rival, None
            self._target_at = inf
        self.events.append(DroppedUnsafeBlock(payload.block_number, payload.block_hash, reason))

    # --- finished, not finalized -----------------------------------------------------------------------------------

    def _next_lookup(self) -> RecordCall | None:
        if self.heads is None and self.synced is not None and self._lookup is None:
            self._lookup = self._look_up(self.synced)
            self._look_on(None)
        return self._due

    def _look_on(self, answer: object) -> None:
        """Go on with the lookup behind the synced block, up to its next call. Raises TemporaryError as `_look_up`."""
        if self._lookup is not None:
            try:
                self._due = self._lookup.send(answer)
            except StopIteration:
                self._due = None

    def _look_up(self, synced: L2BlockRef) -> Lookup[None]:
        """Look up the block behind the synced one, those of the labels above it, and the record; set the heads.

        Raises TemporaryError where the synced chain lacks the finalized block [SDB9]."""
        behind = yield from self._block_behind(synced)
        finalized, safe = (self._above(behind, label) for label in LABELS[:2])
        there: dict[int, object] = {}
        for ref in (finalized, safe):
            if ref is not None and ref.number not in there:
                there[ref.number] = yield engine_api.GetBlockRef(ref.number)
        recorded = None
        if self._records:
            recorded = yield from self._read_record(behind, synced)
        if finalized is not None and not _is_same(there[finalized.number], finalized):
            self.state, self.target, self.sent, self.synced = ELSyncState.STARTED, None, None, None
            self._end_lookup()
            raise TemporaryError(f"the synced chain of {synced} does not have the finalized block {finalized}")
        final = at = finalized or behind
        if safe is not None and _is_same(there[safe.number], safe) and safe.number > final.number:
            at = safe
        known, verdict = self._known_final, self._verification.verdict
        if recorded is not None:
            at = recorded
            final = yield from self._at_most(None if known is None else known.id, min(final, at, key=_number))
        if verdict is not None and (known is None or known.number < final.number):
            final = yield from self._at_most(verdict.verified, final)
        self.heads, self._from_record = Heads(synced, at, at, final), recorded is not None

    @property
    def _known_final(self) -> L2BlockRef | None:
        """The block that was final before the sync, None for genesis."""
        known = self.labels.get("finalized")
        return None if known is None or known.hash == self._rollup.genesis.l2.hash else known

    def _at_most(self, limit: BlockId | None, block: L2BlockRef) -> Lookup[L2BlockRef]:
        """Return a block of the synced chain, or one below it that the engine still has."""
        if limit is None or block.number <= limit.number:
            return block
        self._may_lack = True
        lower = yield engine_api.GetBlockRef(limit.number)
        self._may_lack = False
        return lower if isinstance(lower, L2BlockRef) and lower.id == limit else block

    def _block_behind(self, synced: L2BlockRef) -> Lookup[L2BlockRef]:
        while (number := max(self._rollup.genesis.l2.number, synced.number - self.offset)) < synced.number:
            block = yield engine_api.GetBlockRef(number)
            if isinstance(block, L2BlockRef):
                return block
            self.offset //= 2
        return synced

    def _read_record(self, behind: L2BlockRef, synced: L2BlockRef) -> Lookup[L2BlockRef | None]:
        if not self._record_usable:
            yield KeepSafeHeads(None)
            return None
        self._may_lack = True
        recorded = yield from recorded_safe_head(behind.number, synced.number)
        self._may_lack = False
        return recorded

    def _above(self, behind: L2BlockRef, label: engine_api.Label) -> L2BlockRef | None:
        """Return the engine's block of a label from before the sync, if it is above the block behind it."""
        known = self.labels.get(label)
        return known if known is not None and known.number > behind.number else None


def _is_same(block: object, known: L2BlockRef) -> bool:
    return isinstance(block, L2BlockRef) and block.hash == known.hash


def _number(block: L2BlockRef) -> int:
    return block.number


def _head_alone(payload: ExecutionPayload) -> Forkchoice:
    """Label are left as they are [ELS6]."""
    return Forkchoice(payload.block_hash, ZERO_HASH, ZERO_HASH)


def recorded_safe_head(number: int, highest: int) -> Lookup[L2BlockRef | None]:
    """Look for the last recorded safe head that is on both chains, at which the database then ends [SDB9].

    `number` is the L2 block that the heads are set at without one, `highest` that of the synced block."""
    heads = yield FindSafeHeads(number)
    if not isinstance(heads, FoundSafeHeads) or heads.last is None:
        return None
    entry = yield from _last_usable(heads.last, number, highest)
    if entry is None and heads.first_from is not None and (yield from _is_usable(heads.first_from, highest)):
        entry = heads.first_from
    if entry != heads.last:
        yield KeepSafeHeads(entry)
    block = None if entry is None else (yield engine_api.GetBlockRef(entry.safe_head.number))
    return block if isinstance(block, L2BlockRef) else None


def _last_usable(last: SafeHeadEntry, number: int, highest: int) -> Lookup[SafeHeadEntry | None]:
    entry: SafeHeadEntry | None = last
    for _ in range(LOOKED_AT):
        if entry is None or (is_usable := (yield from _is_usable(entry, highest))) is None:
            break
        if is_usable:
            return entry
        earlier = yield FindSafeHeads(number, entry.l1_block.number)
        entry = earlier.last if isinstance(earlier, FoundSafeHeads) else None
    return None


def _is_usable(entry: SafeHeadEntry, highest: int) -> Lookup[bool | None]:
    """Look whether the synced chain has the L2 block of an entry, and L1 the L1 block; None where the engine lacks it.

    Then it lacks those below as well: it has pruned them."""
    if entry.safe_head.number > highest:
        return False
    block = yield engine_api.GetBlockRef(entry.safe_head.number)
    if not isinstance(block, L2BlockRef):
        return None
    l1_block = None if block.id != entry.safe_head else (yield GetL1BlockRef(entry.l1_block.number, True))
    return isinstance(l1_block, L1BlockRef) and l1_block.id == entry.l1_block
