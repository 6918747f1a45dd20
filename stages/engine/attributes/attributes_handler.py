"""Brings derived attributes into the execution engine.

Consolidates them with the block that is already in the chain, or has the block built. One job at a time; `next` names
the call that is due and may be called any number of times, `answer` takes the engine's answer. After a TemporaryError
the same call is due again.

| step        | call                                   | goes to                                               |
|-------------|----------------------------------------|-------------------------------------------------------|
| CONSOLIDATE | get the block after the parent         | done if it matches, else START; HOLD if it differs in |
|             |                                        | the upgrade transactions alone; COMPARE if it may     |
|             |                                        | be in the place of a denied block [IV11]              |
| COMPARE     | get a denied block of this number      | done if it matches, else START                        |
| HOLD        | get the block again, and those that    | as CONSOLIDATE; START if L1 names another block       |
|             | batches on L1 name as their parents    |                                                       |
| START       | forkchoice at the parent, attributes   | SEAL; invalid: START with deposits only, or dropped   |
| SEAL        | get the payload                        | INSERT; error, another block than that of the         |
|             |                                        | attributes: START; transactions are left out: invalid |
| INSERT      | new payload                            | CHOOSE; invalid: START with deposits only, or dropped |
| CHOOSE      | forkchoice at the new block            | done                                                  |
| CHOOSE      | the same, with the attributes that     | done, and the next job at SEAL; any other answer:     |
|             | were derived ahead [ENG40]             | CHOOSE without attributes                             |

What no engine can execute is invalid before the call of START is made, and is looked for more closely after a failed
attempt. After lost builds START and SEAL are made for a part of the transactions, until it is known which one fails.

Rules: [ENG12 to ENG25], [ENG34], [ENG39], [ATT34 to ATT40], [ATT46 to ATT49], [CON26 to CON29], [UPG24], [IV5, IV6].
"""

from collections import deque
from contextlib import suppress

import msgspec

from rollup_node.stages.engine.attributes.activation_hold import ActivationHold, has_selectable_bundle, other_upgrade
from rollup_node.stages.engine.attributes.attributes_job import (
    LOST_BUILDS,
    AttributesJob,
    AttributesStep,
    BuildProbe,
    may_lack_gas,
)
from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.heads import Forkchoice, L2BlockInfo, UnreadableBlockError, l2_block_info
from rollup_node.stages.engine.heads.engine_controller import EngineController, raise_unless_done
from rollup_node.stages.engine.heads.verification import Verification
from rollup_node.stages.messages.attributes_channel import MAX_UNREPORTED, AttributesReceiver
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesReady, AttributesResult
from rollup_node.stages.protocol.attributes import deposits_only, is_deposits_only
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.consolidation import Mismatch, first_mismatch, sealed_mismatch
from rollup_node.stages.protocol.errors import CriticalError, ResetError, TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.protocol.unexecutable import unexecutable

READING = AttributesStep.CONSOLIDATE, AttributesStep.HOLD, AttributesStep.COMPARE
MAX_SIGNED = 4
"""Blocks of the sequencer at the activation of a fork that are kept: one for each branch."""


class AttributesHandler:
    """The current job, the attributes that wait behind it, and the outcome of the last one.

    `reset` is the number of the start that derivation works on; within it attributes are numbered by `sequence`. Up to
    number `was_safe` the engine's blocks were safe at the start."""

    def __init__(self, rollup: RollupConfig, controller: EngineController, verification: Verification) -> None:
        self.rollup, self._verification = rollup, verification
        self.was_safe = 0
        self.schedule = rollup.schedule()
        self.controller = controller
        self.reset = 0
        self.safe_config: SystemConfig | None = None
        self.pending_config: SystemConfig | None = None
        self.job: AttributesJob | None = None
        self.last: AttributesResult | None = None
        self.run = AttributesReceiver()
        self._signed: deque[ExecutionPayload] = deque(maxlen=MAX_SIGNED)
        self._sound = 0

    def start(self, reset: int, safe_config: SystemConfig) -> None:
        """Note that derivation starts at the safe head in force, whose block has this system config."""
        self.clear()
        self.reset = reset
        self.safe_config = self.pending_config = safe_config

    def clear(self) -> None:
        """Drop the current job, what waits, and the last outcome."""
        self.safe_config = self.pending_config = self.job = self.last = None
        self.run.clear()
        self._sound = 0

    # --- jobs ------------------------------------------------------------------------------------------------------

    def add(self, derived: AttributesReady) -> None:
        """Keep attributes of the current start until it is their turn."""
        newest = None
        if self.job is not None:
            newest = self.job.derived.sequence
            if self.job.hold is not None and derived.sequence == newest:
                self.job.hold.add(derived.parents)
        elif self.last is not None and self.last.outcome is AttributesOutcome.ACCEPTED:
            newest = self.last.sequence
        self.run.add(derived, newest)

    def note_signed(self, payload: ExecutionPayload) -> None:
        """Keep a block that the sequencer has signed, if it activates a fork: a reorg may lead back to it [UPG24]."""
        if has_selectable_bundle(self.rollup, payload.timestamp):
            self._signed.append(payload)

    def forget_signed(self, block: Hash) -> None:
        """Note that the engine refuses a block."""
        self._signed = deque((item for item in self._signed if item.block_hash != block), MAX_SIGNED)

    def cancel_ahead(self) -> None:
        """Drop what was derived ahead of the current job."""
        self.run.ahead.clear()
        if self.job is not None:
            self.job.following = None

    def begin(self) -> AttributesResult | None:
        """Offer the attributes that derivation waits for."""
        derived, self.run.offered = self.run.offered, None
        return None if derived is None else self.offer(derived)

    def begin_ahead(self) -> None:
        """Take the attributes that were derived ahead of the last block as the current job [ENG40]."""
        heads, last, config = self.controller.heads, self.last, self.pending_config
        if self.job is not None or not self.run.ahead or heads is None or last is None or config is None:
            return
        derived = self.run.following(last.sequence, last.safe_head, config)
        if derived is not None and heads.pending_safe == last.safe_head:
            self.run.ahead.popleft()
            self._begin(derived)

    def join(self) -> None:
        """Have the update that makes the inserted block the head carry the attributes that follow, if they wait."""
        job = self.job
        if job is None or job.step is not AttributesStep.CHOOSE or job.replaced or job.apart:
            return
        if job.inserted is not None:
            result = self.run.following(job.derived.sequence, job.inserted.ref, job.inserted.config)
            # A block with upgrade transactions is compared with the sequencer's before it is built [UPG24].
            if result is not None and (self.schedule.activations(result.attributes.timestamp) or self._defect(result)):
                result = None
            job.following = result

    def offer(self, derived: AttributesReady) -> AttributesResult | None:
        """Take attributes as the current job; the outcome if there is one already. Raises ResetError [CON27]."""
        heads = self.controller.heads
        if heads is None or derived.reset != self.reset:
            return None
        if self.last is not None and derived.sequence <= self.last.sequence:
            self.run.repeat_from(derived.sequence)
            return self.last
        if self.job is not None:
            return None
        if derived.parent.id != heads.pending_safe.id:
            raise ResetError(f"attributes on {derived.parent} do not fit the pending safe head {heads.pending_safe}")
        if heads.unsafe.number < heads.pending_safe.number:
            raise ResetError(f"the unsafe head {heads.unsafe} is below the pending safe head {heads.pending_safe}")
        self._begin(derived)
        return None

    def _begin(self, derived: AttributesReady) -> None:
        heads = self.controller.heads
        exists = heads is not None and heads.unsafe.number > derived.parent.number
        step = AttributesStep.CONSOLIDATE if exists else AttributesStep.START
        self.job = AttributesJob(derived, derived.attributes, step)
        if not exists and (signed := self._signed_on(derived.parent.hash)) is not None:
            self._hold(self.job, signed)

    def _mismatch(self, job: AttributesJob, block: ExecutionPayload) -> Mismatch | None:
        return first_mismatch(self.rollup, job.attributes, job.derived.parent.hash, block)

    def _signed_on(self, parent: Hash) -> ExecutionPayload | None:
        return next((item for item in reversed(self._signed) if item.parent_hash == parent), None)

    def _hold(self, job: AttributesJob, block: ExecutionPayload) -> bool:
        """Return whether derivation waits before this block, since it differs in its upgrade transactions alone."""
        if job.hold is not None and job.hold.other.hash == block.block_hash:
            return True
        other = other_upgrade(self.rollup, job.attributes, job.derived.parent.hash, block)
        if other is None:
            return False
        job.hold, job.step = ActivationHold(other, block.block_number <= self.was_safe), AttributesStep.HOLD
        return True

    def check(self) -> AttributesResult | None:
        """Refuse attributes that no engine can execute before their build [ATT48]; the outcome if the job is done."""
        job = self.job
        if job is None or job.step is not AttributesStep.START or job.replaced:
            return None
        defect, job.failed = self._defect(job.derived, job.failed), False
        if defect is not None:
            return self._invalid(job, Problem(Code.TRANSACTION_INVALID, "", defect))
        if job.lost == LOST_BUILDS and job.probe is None and may_lack_gas(job.attributes):
            job.probe = BuildProbe(job.attributes)
        return None

    def _defect(self, derived: AttributesReady, failed: bool = False) -> str | None:
        """Return what makes attributes unexecutable; signatures count after an engine has `failed` with them."""
        if derived.sequence == self._sound and not failed:
            return None
        defect = unexecutable(self.rollup, derived.attributes, senders=failed)
        if defect is None:
            self._sound = derived.sequence
        return defect

    def prepare(self) -> PayloadAttributes | None:
        """Compute what the next answer will need while the engine works; return the attributes that follow [ENG44]."""
        job = self.job
        if job is not None and job.payload is not None and job.sealed is None:
            # What cannot be read is an error once the engine has taken the block.
            with suppress(UnreadableBlockError):
                job.sealed = l2_block_info(job.payload, self.rollup)
        if not self.run.ahead:
            return None
        following = self.run.ahead[0]
        if following.sequence != self._sound and self._defect(following) is not None:
            return None
        return following.attributes

    def fail(self) -> None:
        """Note that an attempt to build the current job's block has failed for now."""
        if self.job is not None:
            self.job.failed = True

    @property
    def result_due(self) -> bool:
        """Whether derivation gets the last outcome at once, and not with one of the next few."""
        last = self.last
        if last is None or last.outcome is not AttributesOutcome.ACCEPTED or (self.job is None and not self.run.ahead):
            return True
        return last.sequence - self.run.reported >= MAX_UNREPORTED

    @property
    def building(self) -> bool:
        """Whether a derived block is being built, so that nothing else may build on the tip."""
        return self.job is not None and self.job.step not in READING

    @property
    def hold(self) -> ActivationHold | None:
        """What derivation waits for before the activation block of a fork [UPG24]."""
        return self.job.hold if self.job is not None and self.job.step is AttributesStep.HOLD else None

    @property
    def inserted(self) -> bool:
        """Whether the current job's block is inserted, and among the heads in force."""
        return self.job is not None and self.job.step is AttributesStep.CHOOSE

    def next(self) -> engine_api.EngineCall | None:
        """Return the call that is due for the current job; None without one."""
        heads, job = self.controller.heads, self.job
        if heads is None or job is None:
            return None
        if job.step in (AttributesStep.CONSOLIDATE, AttributesStep.START) and self._forkchoice_first(job):
            due = self.controller.forkchoice_due()
            if due is not None:
                return due
        match job.step:
            case AttributesStep.CONSOLIDATE:
                return engine_api.GetBlock(job.derived.parent.number + 1)
            case AttributesStep.COMPARE:
                return engine_api.GetBlock(job.suspects[0])
            case AttributesStep.HOLD:
                return self._compared(job, heads.unsafe.number)
            case AttributesStep.START:
                parent = Forkchoice(job.derived.parent.hash, heads.verified_safe.hash, heads.finalized.hash)
                return engine_api.ForkchoiceUpdate(parent, job.asked)
            case AttributesStep.INSERT if job.payload is not None:
                return engine_api.NewPayload(job.payload)
            case AttributesStep.CHOOSE:
                return engine_api.ForkchoiceUpdate(
                    heads.forkchoice(), None if job.following is None else job.following.attributes
                )
        return engine_api.GetPayload(job.payload_id, job.attributes.timestamp)

    def _compared(self, job: AttributesJob, unsafe: int) -> engine_api.EngineCall | None:
        """Return the block to look at while derivation waits; None until it asks again."""
        number, hold = job.derived.parent.number + 1, job.hold
        if hold is None:
            return None
        is_there, signed = unsafe >= number, self._signed_on(job.derived.parent.hash)
        if not (is_there and hold.look_again) and hold.contradicted(unsafe):
            job.reason = Problem(None, "", f"batches on L1 do not build on block {hold.other.block}")
        elif signed is not None and self._mismatch(job, signed) is None:
            job.reason = Problem(None, "", f"the sequencer has replaced block {hold.other.block}")
        elif is_there or signed is not None:
            return engine_api.GetBlock(hold.due(unsafe) or number) if is_there and hold.look_again else None
        job.hold, job.step = None, AttributesStep.START
        return self.next()

    def _forkchoice_first(self, job: AttributesJob) -> bool:
        """Return whether an update is sent before the job: a displaced tip, or other safe heads first [ENG37]."""
        controller = self.controller
        return controller.restoring_backup or controller.promoted_from not in (None, job.derived.derived_from)

    def answer(self, call: object, answer: object) -> AttributesResult | None:
        """Take the engine's answer to `call`, which may also be the controller's forkchoice update.

        The outcome when the job is done. An answer to a call that is not due is ignored. Raises TemporaryError when the
        same call is due again, ResetError when a new start is needed, CriticalError when deposits alone are invalid,
        and ForkMismatchError when the engine has other forks."""
        job = self.job
        if (
            isinstance(call, engine_api.ForkchoiceUpdate)
            and call.attributes is None
            and call == self.controller.forkchoice_due()
        ):
            self.controller.answer(call, answer)
            return self._chosen(job) if job is not None and job.step is AttributesStep.CHOOSE else None
        if job is None or self.controller.heads is None or call != self.next():
            return None
        match call:
            case engine_api.GetBlock(name=int(number)) if job.hold is not None and job.hold.due(number) == number:
                job.hold.compare(number, answer.block_hash if isinstance(answer, ExecutionPayload) else None)
                return None
            case engine_api.GetBlock() if job.step is AttributesStep.COMPARE:
                return self._compare(job, answer)
            case engine_api.GetBlock():
                return self._consolidate(job, answer)
            case engine_api.ForkchoiceUpdate(forkchoice=sent) if job.following is not None:
                return self._joined(job, job.following, sent, answer)
            case engine_api.ForkchoiceUpdate(forkchoice=sent):
                return self._started(job, sent, answer)
            case engine_api.GetPayload():
                return self._sealed(job, answer)
        return self._inserted(job, answer)

    # --- answers ---------------------------------------------------------------------------------------------------

    def _consolidate(self, job: AttributesJob, answer: object) -> AttributesResult | None:
        if answer is None:
            number = job.derived.parent.number + 1
            raise ResetError(f"the engine has no block {number}, though its head is beyond it")
        if not isinstance(answer, ExecutionPayload):
            raise TemporaryError("the engine's answer is not a block", Code.ENGINE_ANSWER)
        result = self._mismatch(job, answer)
        if result is None and self._verification.denies(answer.block_hash):
            return self._invalid(job, engine_api.Denied(answer.block_number).problem)
        if result is None:
            return self._chosen(job, l2_block_info(answer, self.rollup))
        if self._hold(job, answer):
            if job.hold is not None:
                job.hold.seen_again()
            return None
        text = f"the unsafe block {answer.block_number} does not match the derived attributes: {result.text}"
        job.reason, job.step = Problem(None, "", text), AttributesStep.START
        suspects = self._verification.denied_at(answer.block_number)
        alone = deposits_only(job.attributes)
        if suspects and first_mismatch(self.rollup, alone, job.derived.parent.hash, answer) is None:
            job.suspects, job.present, job.step = suspects, answer, AttributesStep.COMPARE
        return None

    def _compare(self, job: AttributesJob, answer: object) -> AttributesResult | None:
        """Take a denied block: if it is that of the attributes, the block in the chain has replaced it [IV11]."""
        if isinstance(answer, ExecutionPayload) and job.present is not None and self._mismatch(job, answer) is None:
            job.replaced, job.reason = True, engine_api.Denied(answer.block_number).problem
            return self._chosen(job, l2_block_info(job.present, self.rollup))
        job.suspects = job.suspects[1:]
        if not job.suspects:
            job.step = AttributesStep.START
        return None

    def _started(self, job: AttributesJob, sent: Forkchoice, answer: object) -> AttributesResult | None:
        result = engine_api.build_start_result(answer)
        engine_api.raise_for_fork_mismatch(self.rollup, job.attributes, job.derived.parent.number + 1, answer)
        if result.status is engine_api.CallStatus.INVALID:
            return self._invalid(job, Problem(None, "", result.text))
        raise_unless_done(engine_api.CallResult(result.status, f"{job.block}: {result.text}"))
        if isinstance(answer, engine_api.ForkchoiceAnswer) and answer.payload_id is not None:
            self.controller.accept(sent)
            job.payload_id, job.step = answer.payload_id, AttributesStep.SEAL
        return None

    def _joined(
        self, job: AttributesJob, following: AttributesReady, sent: Forkchoice, answer: object
    ) -> AttributesResult | None:
        """Take the answer to a joint update; after any other than success the two are asked apart."""
        job.following, job.apart = None, True
        if engine_api.build_start_result(answer).status is not engine_api.CallStatus.DONE:
            return None
        if not isinstance(answer, engine_api.ForkchoiceAnswer) or answer.payload_id is None:
            return None
        self.controller.accept(sent)
        processed = self._chosen(job)
        self.run.ahead.popleft()
        self.job = AttributesJob(following, following.attributes, AttributesStep.SEAL, answer.payload_id)
        return processed

    def _sealed(self, job: AttributesJob, answer: object) -> AttributesResult | None:
        if job.probe is not None and isinstance(answer, engine_api.ErrorAnswer):
            job.probe.lost()
            return self._probed(job, job.probe)
        if not isinstance(answer, ExecutionPayload):
            job.step, job.lost = AttributesStep.START, job.lost + 1
            lost = f"the engine began to build {job.block}, and does not return it: {engine_api.answer_text(answer)}"
            raise TemporaryError(lost, Code.BUILD_LOST)
        mismatch = sealed_mismatch(self.rollup, job.asked, job.derived.parent, answer)
        if mismatch is not None and mismatch.left_out:
            return self._invalid(job, Problem(Code.TRANSACTION_LEFT_OUT, "", mismatch.text))
        if mismatch is not None:
            job.step = AttributesStep.START
            raise TemporaryError(f"{job.block}: {mismatch.text}", Code.ENGINE_CONTRADICTS)
        if job.probe is not None:
            job.probe.built(answer.gas_used)
            return self._probed(job, job.probe)
        job.payload, job.sealed, job.step = answer, None, AttributesStep.INSERT
        return None

    def _probed(self, job: AttributesJob, probe: BuildProbe) -> AttributesResult | None:
        job.step = AttributesStep.START
        if not probe.done:
            return None
        proof, job.probe, job.lost = probe.proof(), None, job.lost + 1
        return None if proof is None else self._invalid(job, Problem(Code.TRANSACTION_INVALID, "", proof))

    def _inserted(self, job: AttributesJob, answer: object) -> AttributesResult | None:
        result = engine_api.insert_result(answer)
        if result.status is engine_api.CallStatus.INVALID:
            denied = answer.problem if isinstance(answer, engine_api.Denied) else None
            return self._invalid(job, denied or Problem(None, "", result.text))
        raise_unless_done(engine_api.CallResult(result.status, f"{job.block}: {result.text}"))
        if isinstance(answer, engine_api.PayloadAnswer) and job.payload is not None:
            job.inserted = job.sealed or l2_block_info(job.payload, self.rollup)
            job.step = AttributesStep.CHOOSE
            self.controller.insert_derived(job.inserted.ref, job.derived.concluding)
            if self.controller.forkchoice_due() is None:
                return self._chosen(job)
        return None

    # --- ends of a job ---------------------------------------------------------------------------------------------

    def _chosen(self, job: AttributesJob, chosen: L2BlockInfo | None = None) -> AttributesResult:
        """End the job: its block is in the chain, `chosen` there or built."""
        block = chosen or job.inserted
        if block is None:
            raise CriticalError("a job of derived attributes ended without its block")
        self.controller.promote(block.ref, job.derived.concluding, job.derived.derived_from)
        self.pending_config = block.config
        if job.derived.concluding:
            self.safe_config = block.config
        if job.replaced:
            return self._done(job.derived, AttributesOutcome.REPLACED_BY_DEPOSITS, job.reason, job.payload)
        self.run.accept(job.derived.sequence, block.ref.hash)
        return self._done(job.derived, AttributesOutcome.ACCEPTED, job.reason, job.payload)

    def _invalid(self, job: AttributesJob, reason: Problem) -> AttributesResult | None:
        """Replace invalid attributes by their deposits alone, where the fork allows it [ATT34, ATT38]."""
        if is_deposits_only(job.attributes):
            block = job.derived.parent.number + 1
            raise CriticalError(f"failed to process block {block} with only deposit transactions: {reason}")
        if not self.schedule.l1(job.derived.derived_from.timestamp).replace_invalid_payloads:
            return self._drop(job, reason)
        job.attributes, job.probe = deposits_only(job.attributes), None
        job.step, job.payload, job.replaced, job.reason = AttributesStep.START, None, True, reason
        return None

    def _drop(self, job: AttributesJob, reason: Problem) -> AttributesResult:
        """Drop the attributes and the pending blocks of their batch [ATT40]."""
        self.controller.drop_pending()
        self.pending_config = self.safe_config
        return self._done(job.derived, AttributesOutcome.REFUSED, reason)

    def _done(
        self,
        derived: AttributesReady,
        outcome: AttributesOutcome,
        reason: Problem | None,
        built: ExecutionPayload | None = None,
    ) -> AttributesResult:
        self.job = None
        if outcome is not AttributesOutcome.ACCEPTED:
            self.run.ahead.clear()
        heads, config = self.controller.heads, self.pending_config
        if heads is None or config is None:
            raise CriticalError("a job of derived attributes ended without heads")
        self.last = AttributesResult(
            self.reset,
            derived.sequence,
            outcome,
            heads.pending_safe,
            config,
            derived.derived_from,
            reason=reason,
            built=built,
        )
        return self.last

    def result_to_send(self, result: AttributesResult) -> AttributesResult:
        """Return a result as derivation gets it; with it the results before count as sent.

        Those behind it are held: accepted ones whose results follow, the current job, and those that wait."""
        accepted = self.run.take_accepted(result.sequence)
        later = 0 if self.last is None else max(0, self.last.sequence - result.sequence)
        held = later + len(self.run.ahead) + (self.job is not None)
        return msgspec.structs.replace(result, reset=self.reset, accepted=accepted, held=held, reason=None, built=None)
