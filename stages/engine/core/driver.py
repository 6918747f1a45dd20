"""Brings derived attributes into the execution engine: consolidates them with the block that is already there, or
builds the block. One job at a time; `next` names the call that is due and may be asked as often as one likes, `answer`
takes what the engine said. A temporary error leaves the machine where it was, so that the same call is due again.

| step   | call                                | goes to                                                    |
|--------|-------------------------------------|------------------------------------------------------------|
| LOOK   | the block after the parent          | done if it matches, else START                             |
| START  | forkchoice at the parent, attributes| SEAL; invalid: START with deposits only, or dropped        |
| SEAL   | get the payload                     | INSERT; error: START; insane: dropped                      |
| INSERT | new payload                         | CHOOSE; invalid: START with deposits only, or dropped      |
| CHOOSE | forkchoice at the new block         | done                                                       |
"""

from enum import Enum

import msgspec

from rollup_node.stages.engine.api.engine_api import (
    Answer,
    Call,
    FetchPayload,
    FindBlock,
    ForkchoiceAnswer,
    InsertPayload,
    Judged,
    PayloadAnswer,
    Refused,
    UpdateForkchoice,
    Verdict,
    judge_build_start,
    judge_forkchoice,
    judge_insert,
)
from rollup_node.stages.engine.api.heads import Forkchoice, Heads
from rollup_node.stages.engine.api.l2_block_info import KnownBlock, known_block
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesReady
from rollup_node.stages.protocol.attributes import deposits_only, is_deposits_only
from rollup_node.stages.protocol.block_refs import sealed_payload_error
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.consolidation import first_mismatch
from rollup_node.stages.protocol.errors import CriticalError, ResetError, TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef


class Step(Enum):
    """Where the job in hand is."""

    LOOK = "look"
    START = "start"
    SEAL = "seal"
    INSERT = "insert"
    CHOOSE = "choose"


class Outcome(msgspec.Struct, frozen=True):
    """What became of one `AttributesReady` message. `reason` is a line for the log where the block is not as derived;
    `built` is the payload if one was built."""

    sequence: int
    outcome: AttributesOutcome
    safe_head: L2BlockRef
    safe_config: SystemConfig
    derived_from: L1BlockRef
    reason: str | None = None
    built: ExecutionPayload | None = None


class Job(msgspec.Struct):
    """Attributes on their way into the engine."""

    derived: AttributesReady
    attributes: PayloadAttributes
    step: Step
    payload_id: bytes = b""
    payload: ExecutionPayload | None = None
    replaced: bool = False
    reason: str | None = None


class Driver:
    """The heads in force and the job in hand. `start` begins a new count of sequences; until the first one, and
    while a new start is being looked for, there are no heads."""

    def __init__(self, rollup: RollupConfig) -> None:
        self.rollup = rollup
        self.schedule = rollup.schedule()
        self.reset = 0
        self.heads: Heads | None = None
        self.safe_config: SystemConfig | None = None
        self.pending_config: SystemConfig | None = None
        self.job: Job | None = None
        self.last: Outcome | None = None
        self.accepted: Forkchoice | None = None
        self.promoted_from: L1BlockRef | None = None
        self.backup: L2BlockRef | None = None
        self.restoring = False

    # --- starts ----------------------------------------------------------------------------------------------------

    def start(self, reset: int, heads: Heads, safe_config: SystemConfig) -> None:
        """A start was found; the engine is told of the heads by the next `settle`."""
        self.clear()
        self.reset = reset
        self.heads = heads
        self.safe_config = self.pending_config = safe_config

    def restart(self, reset: int) -> None:
        """Derivation begins again at the present safe head; the tip stays."""
        heads, config = self.heads, self.safe_config
        if heads is None or config is None:
            raise CriticalError("derivation cannot begin again before the first start was found")
        accepted = self.accepted
        self.start(reset, heads.without_pending(), config)
        self.accepted = accepted

    def clear(self) -> None:
        """No heads are in force until the next start."""
        self.heads = self.safe_config = self.pending_config = None
        self.job = self.last = self.accepted = self.promoted_from = self.backup = None
        self.restoring = False

    # --- jobs ------------------------------------------------------------------------------------------------------

    def offer(self, derived: AttributesReady) -> Outcome | None:
        """Takes attributes as the job in hand; an outcome if they were dealt with before or are stale. Of another
        reset or an old sequence: nothing happens."""
        heads = self.heads
        if heads is None or derived.reset != self.reset:
            return None
        if self.last is not None and derived.sequence <= self.last.sequence:
            return self.last if derived.sequence == self.last.sequence else None
        if self.job is not None:
            return None
        if derived.parent.number != heads.pending_safe.number:
            return self._done(derived, AttributesOutcome.REFUSED, "stale: the parent is not the pending safe head")
        if derived.parent.hash != heads.pending_safe.hash:
            raise ResetError(f"attributes on {derived.parent} do not fit the pending safe head {heads.pending_safe}")
        if heads.unsafe.number < heads.pending_safe.number:
            raise ResetError(f"the unsafe head {heads.unsafe} is below the pending safe head {heads.pending_safe}")
        step = Step.LOOK if heads.unsafe.number > derived.parent.number else Step.START
        self.job = Job(derived, derived.attributes, step)
        return None

    @property
    def building(self) -> bool:
        """Whether a derived block is on its way, so that nobody else may build on the tip."""
        return self.job is not None and self.job.step is not Step.LOOK

    def next(self) -> Call | None:
        """The call that is due for the job in hand; None without one."""
        heads, job = self.heads, self.job
        if heads is None or job is None:
            return None
        if job.step in (Step.LOOK, Step.START) and self._settle_first(job) and (due := self.settle()) is not None:
            return due
        if job.step is Step.LOOK:
            return FindBlock(job.derived.parent.number + 1)
        if job.step is Step.START:
            here = Forkchoice(job.derived.parent.hash, heads.safe.hash, heads.finalized.hash)
            return UpdateForkchoice(here, job.attributes)
        if job.step is Step.SEAL or job.payload is None:
            return FetchPayload(job.payload_id, job.attributes.timestamp)
        if job.step is Step.INSERT:
            return InsertPayload(job.payload)
        return UpdateForkchoice(heads.forkchoice())

    def _settle_first(self, job: Job) -> bool:
        """A displaced tip is tried before anything is built; the safe heads from one L1 block are told before those
        from the next."""
        return self.restoring or self.promoted_from not in (None, job.derived.derived_from)

    def settle(self) -> Call | None:
        """The forkchoice update that tells the engine of heads it has not heard of; None if it knows them."""
        heads = self.heads
        if heads is None:
            return None
        wanted = heads.forkchoice()
        if self.restoring and self.backup is not None:
            return UpdateForkchoice(msgspec.structs.replace(wanted, head=self.backup.hash))
        return None if wanted == self.accepted else UpdateForkchoice(wanted)

    def answer(self, call: Call, answer: Answer) -> Outcome | None:
        """Takes the engine's answer to `call`; an outcome when the job is done. An answer to a call that is not due
        is ignored."""
        if isinstance(call, UpdateForkchoice) and call.attributes is None and call == self.settle():
            return self._settled(call, answer)
        job = self.job
        if job is None or self.heads is None or call != self.next():
            return None
        if isinstance(call, FindBlock):
            return self._looked(job, answer)
        if isinstance(call, UpdateForkchoice):
            return self._started(job, call.forkchoice, answer)
        if isinstance(call, FetchPayload):
            return self._sealed(job, answer)
        return self._inserted(job, answer)

    # --- the tip ---------------------------------------------------------------------------------------------------

    def advance(self, ref: L2BlockRef) -> None:
        """A block that this node sequenced is valid and becomes the tip."""
        if self.heads is not None:
            self.heads = self.heads.with_unsafe(ref)

    def finalize(self, ref: L2BlockRef) -> None:
        """A safe block is final (node-behaviour 11.8)."""
        if self.heads is not None:
            self.heads = self.heads.with_finalized(ref)

    def doubt(self) -> None:
        """The engine may have lost the heads that it took: `settle` tells them again."""
        self.accepted = None

    # --- answers ---------------------------------------------------------------------------------------------------

    def _settled(self, call: UpdateForkchoice, answer: Answer) -> Outcome | None:
        judged = judge_forkchoice(answer)
        if self.restoring and self.backup is not None:
            self._restored(self.backup, call.forkchoice, judged, answer)
            return None
        _demand_done(judged)
        self.accepted = call.forkchoice
        self.promoted_from = None
        job = self.job
        return self._chosen(job) if job is not None and job.step is Step.CHOOSE else None

    def _restored(self, backup: L2BlockRef, there: Forkchoice, judged: Judged, answer: Answer) -> None:
        """The displaced tip is back, or given up; only an engine that could not judge is asked again."""
        if judged.verdict is Verdict.RETRY:
            raise TemporaryError(judged.text)
        self.backup, self.restoring = None, False
        if judged.verdict is Verdict.DONE:
            self.advance(backup)
            self.accepted = there
        elif isinstance(answer, Refused):
            raise ResetError(judged.text)

    def _looked(self, job: Job, answer: Answer) -> Outcome | None:
        if answer is None:
            number = job.derived.parent.number + 1
            raise ResetError(f"the engine has no block {number}, though its head is beyond it")
        if not isinstance(answer, ExecutionPayload):
            raise TemporaryError("the engine's answer is not a block")
        found = first_mismatch(self.rollup, job.attributes, job.derived.parent.hash, answer)
        if found is None:
            return self._chosen(job, known_block(answer, self.rollup))
        job.reason = f"the unsafe block {answer.block_number} does not match what L1 says: {found.text}"
        job.step = Step.START
        return None

    def _started(self, job: Job, here: Forkchoice, answer: Answer) -> Outcome | None:
        judged = judge_build_start(answer)
        if judged.verdict is Verdict.INVALID:
            return self._invalid(job, judged.text)
        _demand_done(judged)
        if isinstance(answer, ForkchoiceAnswer) and answer.payload_id is not None:
            self.accepted = here
            job.payload_id, job.step = answer.payload_id, Step.SEAL
        return None

    def _sealed(self, job: Job, answer: Answer) -> Outcome | None:
        if not isinstance(answer, ExecutionPayload):
            job.step = Step.START
            raise TemporaryError("the engine has lost the block it was building; it is started again")
        problem = sealed_payload_error(self.rollup, answer)
        if problem is not None:
            return self._drop(job, f"the engine sealed a payload that cannot be: {problem}")
        job.payload, job.step = answer, Step.INSERT
        return None

    def _inserted(self, job: Job, answer: Answer) -> Outcome | None:
        judged = judge_insert(answer)
        if judged.verdict is Verdict.INVALID:
            return self._invalid(job, judged.text)
        _demand_done(judged)
        if isinstance(answer, PayloadAnswer) and job.payload is not None and self.heads is not None:
            ref = known_block(job.payload, self.rollup).ref
            if self.heads.unsafe.number >= ref.number:
                self.backup = self.heads.unsafe
            job.step = Step.CHOOSE
            self.heads = self.heads.with_unsafe(ref).with_derived(ref, job.derived.concluding)
            if self.settle() is None:
                return self._chosen(job)
        return None

    # --- ends of a job ---------------------------------------------------------------------------------------------

    def _chosen(self, job: Job, found: KnownBlock | None = None) -> Outcome:
        """The block is in the chain: `found` there, or built."""
        if found is None and job.payload is not None:
            found = known_block(job.payload, self.rollup)
        if found is None or self.heads is None:
            raise CriticalError("a job ended without its block")
        self.heads = self.heads.with_derived(found.ref, job.derived.concluding)
        self.pending_config = found.config
        if job.derived.concluding:
            self.safe_config, self.backup = found.config, None
        self.promoted_from = None if self.settle() is None else job.derived.derived_from
        outcome = AttributesOutcome.REPLACED_BY_DEPOSITS if job.replaced else AttributesOutcome.ACCEPTED
        return self._done(job.derived, outcome, job.reason, job.payload)

    def _invalid(self, job: Job, reason: str) -> Outcome | None:
        """The engine says that the attributes, or the block made of them, are invalid (attributes-rules 4.5)."""
        if is_deposits_only(job.attributes):
            block = job.derived.parent.number + 1
            raise CriticalError(f"failed to process block {block} with only deposit transactions: {reason}")
        if not self.schedule.l1(job.derived.derived_from.timestamp).replace_invalid_payloads:
            return self._drop(job, reason)
        job.attributes = deposits_only(job.attributes)
        job.step, job.payload, job.replaced, job.reason = Step.START, None, True, reason
        return None

    def _drop(self, job: Job, reason: str) -> Outcome:
        """Gives the attributes up; what of their batch was pending is undone, and the tip that the batch had
        displaced is tried once more."""
        if self.heads is None:
            raise CriticalError("a job ended without heads")
        self.restoring = self.backup is not None
        self.heads = self.heads.without_pending()
        self.pending_config = self.safe_config
        return self._done(job.derived, AttributesOutcome.REFUSED, reason)

    def _done(
        self,
        derived: AttributesReady,
        outcome: AttributesOutcome,
        reason: str | None,
        built: ExecutionPayload | None = None,
    ) -> Outcome:
        self.job = None
        if self.heads is None or self.pending_config is None:
            raise CriticalError("a job ended without heads")
        head, config = self.heads.pending_safe, self.pending_config
        self.last = Outcome(derived.sequence, outcome, head, config, derived.derived_from, reason, built)
        return self.last


def _demand_done(judged: Judged) -> None:
    if judged.verdict is Verdict.RESET:
        raise ResetError(judged.text)
    if judged.verdict is not Verdict.DONE:
        raise TemporaryError(judged.text)
