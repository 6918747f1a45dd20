"""Follows the heads of another node instead of deriving [FSR1 to FSR13].

A round reads the source's status, compares its L1 blocks with our L1 and its L2 blocks with our engine, and ends with
heads to import or with a block to move to. Rounds begin every two block times, whatever became of the last one, and
every second while the chain is held [FSR3].

| state     | next call                                | then                                                       |
|-----------|------------------------------------------|------------------------------------------------------------|
| idle      | the status, when it is due               | checking; idle if it is inconsistent                       |
| checking  | an L1 block of the status, each once     | checking; idle if it is not canonical                      |
| checking  | an L2 block of the status that our chain | ready, all are in our chain; moving, our chain has another |
|           | should have                              | local safe block; idle, the status lies                    |
| checking  | with a shorter chain, the block that the | moving, to that block if it is there, else to the local    |
|           | engine fetches the chain up to           | safe head                                                  |
| ready     |                                          | idle, when the heads are imported                          |
| moving    | a forkchoice update; when the engine has | idle, when the engine lacks the block or it is as the      |
|           | accepted it, the block, and the safe one | source says                                                |"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise

import msgspec

from rollup_node.stages.engine.calls.calls import (
    FollowReason,
    FollowStatus,
    GetFollowStatus,
    GetL1BlockRef,
)
from rollup_node.stages.engine.calls.engine_api import GetBlockRef, Unavailable
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig, network_left
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

FollowCall = GetFollowStatus | GetL1BlockRef | GetBlockRef

MAX_FUTURE_SECONDS = 5
"""A head may be so far ahead of this machine's clock, as a gossiped block may [VAL6]."""
SYNCING_SECONDS = 1.0
"""Between two rounds while the chain is held."""
HOLD_BLOCK_TIMES = 3
"""For so many block times the engine may fetch a block without anything being inserted or built."""
HOLD_EVERY_SECONDS = 60.0
"""The chain is held so often for blocks that the engine does not get."""


class FollowResult(StrEnum):
    """How a round ended, as counted in `follow_source_requests_total` [FSR4]."""

    SUCCESS = "success"
    FETCH_STATUS = "error_fetch_status"
    INVALID_STATE = "error_invalid_state"
    L1_LOOKUP = "error_l1_lookup"
    L1_MISMATCH = "error_l1_mismatch"


class FollowError(TemporaryError):
    """A round ended without heads. `result` is None where the source is not the cause."""

    def __init__(self, result: FollowResult | None, reason: FollowReason, text: str, code: Code | None = None) -> None:
        super().__init__(text, code or Code.FOLLOW_SOURCE)
        self.result, self.reason = result, reason


class FollowResetError(ResetError):
    """A sequencer starts over with these heads, those after a move to the source's chain."""

    def __init__(self, heads: Heads) -> None:
        super().__init__(f"the follow source has the safe head {heads.unsafe}")
        self.heads = heads


class FollowSource:
    """`status` is that of the current round; `ready`: its heads may be imported.

    `target` is the status whose local safe head our tip is to become first, `syncing` the target that the engine
    fetches the chain up to, as far as is known, and `hold_until` when our own chain goes on without it. `taken` is the
    update of the move that the engine has accepted. `resumed`: the engine has reached the target without the source,
    which is `failing`. `start_heads` are those to start over with. `proven` is the number up to which the source has
    proven to have replaced our chain, 0 if it has not [FSR11]. `current_l1` is that of the last round that ended well.
    Times are monotonic seconds but for those of `unix`."""

    def __init__(self, rollup: RollupConfig, enabled: bool) -> None:
        self.enabled = enabled
        self.status: FollowStatus | None = None
        self.ready = False
        self.target: FollowStatus | None = None
        self.taken: Forkchoice | None = None
        self.syncing: FollowStatus | None = None
        self.hold_until = 0.0
        self.resumed = self.failing = False
        self.start_heads: Heads | None = None
        self.proven = 0
        self.current_l1: L1BlockRef | None = None
        self.due_at = self._hold_at = 0.0
        self._replaces = False
        self._rollup = rollup
        self._l1: dict[int, L1BlockRef | None] = {}
        self._compared: set[int] = set()
        self._confirmed: set[Hash] = set()
        self._unreached: Hash | None = None

    @property
    def interval(self) -> float:
        """Seconds between two rounds: two blocks."""
        return 2.0 * self._rollup.block_time

    def holds(self, now: float) -> bool:
        """Return whether nothing is inserted or built, so that the engine gets on with its block."""
        return self.syncing is not None and now < self.hold_until

    def end_round(self) -> None:
        """Forget the status; another one is read when it is due."""
        self.status = self.target = self.taken = None
        self.ready = self.resumed = self._replaces = False
        self._l1.clear()
        self._compared.clear()
        self._confirmed.clear()

    def on_reset(self, error: ResetError) -> None:
        """There are no heads: what was compared with them does not hold."""
        self.start_heads = None
        if isinstance(error, FollowResetError):
            self.start_heads = error.heads
        else:
            self.proven = 0
        self.end_round()
        self.due_at, self.failing = 0.0, False
        self.give_up()

    def give_up(self) -> None:
        """No block is waited for."""
        self.syncing = self._unreached = None

    def failed(self, error: FollowError) -> None:
        """Note that a round ended without heads. A move that needs no status stays due."""
        self.failing = error.result is not None
        if not self.resumed:
            self.end_round()

    def resume(self) -> None:
        """Note that the engine has fetched the chain that it was pointed at: it is moved to without a status."""
        self.end_round()
        self.target, self.resumed = self.syncing, True

    # --- a round ---------------------------------------------------------------------------------------------------

    def next(self, heads: Heads, now: float) -> FollowCall | None:
        """Return the call that is due, while these heads are in force."""
        if not self.enabled or self.ready or self.target is not None:
            return None
        if self.status is None:
            if now < self.due_at:
                return None
            self.due_at = now + self.interval
            # A block that no engine has may be one of another chain.
            return GetFollowStatus(check_chain=self.syncing is not None and not self.holds(now))
        for block, _ in self._l1_blocks(self.status):
            if block.number not in self._l1:
                return GetL1BlockRef(block.number, fresh=not self._l1)
        awaited = self._awaited(heads)
        if awaited is not None and self._is_ahead(self.status, heads):
            return GetBlockRef(awaited.local_safe.hash)
        return next((GetBlockRef(ref.number) for ref, _ in self._to_compare(self.status, heads)), None)

    def answer(self, call: FollowCall, answer: object, heads: Heads, unix: float) -> None:
        """Take the answer to a call. Raises FollowError, after which the round is to be ended."""
        if isinstance(call, GetFollowStatus):
            if not isinstance(answer, FollowStatus):
                cause = answer.cause if isinstance(answer, Unavailable) else ""
                reason = FollowReason(cause or FollowReason.NO_ANSWER)
                raise FollowError(FollowResult.FETCH_STATUS, reason, _text(answer), _code(answer))
            self._check(answer, heads, unix)
            self.status = answer
        elif self.status is not None and isinstance(call, GetL1BlockRef):
            self._take_l1(self.status, call.number, answer)
        elif self.status is not None and isinstance(call, GetBlockRef):
            awaited = self._awaited(heads)
            if awaited is not None and call.name == awaited.local_safe.hash:
                self._take_synced(self.status, awaited, answer)
            elif isinstance(call.name, int):
                self._take_l2(self.status, call.name, answer, heads)
        if self.status is not None and self.target is None:
            self._decide(self.status, heads)

    def _decide(self, status: FollowStatus, heads: Heads) -> None:
        if any(block.number not in self._l1 for block, _ in self._l1_blocks(status)):
            return
        if self._is_ahead(status, heads):
            awaited = self._awaited(heads)
            if awaited is None or awaited.local_safe.hash in (status.local_safe.hash, self._unreached):
                self.target = status
        elif not any(self._to_compare(status, heads)):
            self.ready = True

    # --- what the source says ----------------------------------------------------------------------------------------

    def _check(self, status: FollowStatus, heads: Heads, unix: float) -> None:
        """Raise FollowError for heads that contradict each other, the config or finality [FSR2, FSR6, LFT4]."""
        if self._rollup.is_foreign(status.local_safe.timestamp):
            raise network_left(self._rollup, status.local_safe)
        named = ((status.finalized, "finalized"), (status.safe, "safe"), (status.local_safe, "local safe"))
        for ref, name in named:
            self._check_ref(ref, name)
        for (lower, lower_name), (upper, upper_name) in pairwise(named):
            if lower.number > upper.number:
                text = f"its {lower_name} head {lower} is ahead of its {upper_name} head {upper}"
                raise _invalid(FollowReason.HEAD_ORDER, text)
            if lower.number == upper.number and lower != upper:
                text = f"its {lower_name} head {lower} is not its {upper_name} head {upper}"
                raise _invalid(FollowReason.HEAD_HASH, text)
        ahead = status.local_safe.timestamp - unix
        if ahead > MAX_FUTURE_SECONDS:
            text = f"its local safe head {status.local_safe} is {ahead:.0f} s ahead of this machine's clock"
            raise _invalid(FollowReason.FUTURE, text)
        for ref, name in named:
            if ref.number == heads.finalized.number and ref.hash != heads.finalized.hash:
                text = f"its {name} head {ref} contradicts the finalized block {heads.finalized}"
                raise _invalid(FollowReason.FINALIZED, text)

    def _check_ref(self, ref: L2BlockRef, name: str) -> None:
        genesis = self._rollup.genesis
        if not any(ref.hash):
            raise _invalid(FollowReason.NO_HEAD, f"it has no {name} head yet")
        above = ref.number - genesis.l2.number
        if above < 0 or (above == 0 and ref.hash != genesis.l2.hash):
            text = f"its {name} head {ref} is of another chain: genesis is {genesis.l2}"
            raise _invalid(FollowReason.GENESIS, text)
        if ref.timestamp != self._rollup.timestamp_of(ref.number):
            text = f"its {name} head {ref} is of another chain: its time is {ref.timestamp}"
            raise _invalid(FollowReason.BLOCK_TIME, text)

    def _l1_blocks(self, status: FollowStatus) -> Iterator[tuple[BlockId, str]]:
        """Return the L1 blocks of a status, lowest first, so that our L1 is asked for what it has had longest."""
        yield status.finalized.l1_origin, "L1 origin of the finalized head"
        yield status.safe.l1_origin, "L1 origin of the safe head"
        yield status.local_safe.l1_origin, "L1 origin of the local safe head"
        if status.current_l1 is not None:
            yield status.current_l1, "current L1 block"

    def _take_l1(self, status: FollowStatus, number: int, answer: object) -> None:
        current = status.current_l1
        if answer is None and current is not None and current.number == number > status.local_safe.l1_origin.number:
            # Our L1 may be a moment behind that of the source. No head depends on this block.
            self._l1[number] = None
            return
        if not isinstance(answer, L1BlockRef):
            text = _text(answer) if answer is not None else f"our L1 does not have L1 block {number} of the source"
            raise FollowError(FollowResult.L1_LOOKUP, FollowReason.L1_UNKNOWN, text, _code(answer))
        for block, name in self._l1_blocks(status):
            if block.number == number and block.hash != answer.hash:
                text = f"the {name} of the source, {block}, is not canonical: our L1 has {answer}"
                raise FollowError(FollowResult.L1_MISMATCH, FollowReason.L1_MISMATCH, text)
        self._l1[number] = answer

    # --- our chain ---------------------------------------------------------------------------------------------------

    def _to_compare(self, status: FollowStatus, heads: Heads) -> Iterator[tuple[L2BlockRef, str]]:
        """Return what our chain should have and was not asked for, with our tip while the engine fetches."""
        if self._is_ahead(status, heads):
            return
        if self.syncing is not None and heads.unsafe.number not in self._compared:
            yield heads.unsafe, "unsafe"
        known = (heads.unsafe, heads.pending_safe, heads.safe, heads.finalized)
        named = ((status.local_safe, "local safe"), (status.safe, "safe"), (status.finalized, "finalized"))
        for ref, name in named:
            if ref.number not in self._compared and ref not in known:
                yield ref, name

    def _is_ahead(self, status: FollowStatus, heads: Heads) -> bool:
        return status.local_safe.number > heads.unsafe.number

    def _awaited(self, heads: Heads) -> FollowStatus | None:
        """Return what the engine fetches above our tip."""
        return self.syncing if self.syncing is not None and self._is_ahead(self.syncing, heads) else None

    def _take_synced(self, status: FollowStatus, syncing: FollowStatus, answer: object) -> None:
        """Note that the engine has fetched the chain up to a target, or gets a newer one."""
        if isinstance(answer, L2BlockRef) and answer.number > 0:
            self.target = syncing
        elif answer is None:
            self.target = status
        else:
            text = f"the execution engine does not say how far it is: {_text(answer)}"
            raise FollowError(None, FollowReason.ENGINE_ANSWER, text, _code(answer))

    def _take_l2(self, status: FollowStatus, number: int, answer: object, heads: Heads) -> None:
        if answer is None:
            text = f"block {number} of our chain is missing in the execution engine"
            raise FollowError(None, FollowReason.ENGINE_LACKS, text)
        if not isinstance(answer, L2BlockRef):
            text = f"block {number} of the source cannot be compared: {_text(answer)}"
            raise FollowError(None, FollowReason.ENGINE_ANSWER, text, _code(answer))
        for ref, name in self._to_compare(status, heads):
            if ref.number != number or ref == answer:
                continue
            if ref == heads.unsafe:
                text = f"the execution engine has left our chain: it has {answer} instead of our unsafe head"
                raise FollowError(None, FollowReason.ENGINE_LACKS, text)
            if ref.hash == answer.hash:
                raise _other_fields(ref, answer)
            if ref.number <= heads.finalized.number:
                text = f"its {name} head {ref} contradicts the finalized block {heads.finalized}"
                raise _invalid(FollowReason.FINALIZED, text)
            if ref != status.local_safe:
                text = f"its {name} head {ref} is not on the chain of its local safe head {status.local_safe}"
                raise _invalid(FollowReason.OTHER_BRANCH, text)
            self.target, self._replaces = status, True
        self._compared.add(answer.number)

    def confirm(self, call: GetBlockRef, answer: object) -> bool:
        """Take the answer about `to_confirm`; whether all is confirmed. Raises FollowError for another block."""
        wanted = self.to_confirm()
        if wanted is None or call != GetBlockRef(wanted.hash):
            return False
        if not isinstance(answer, L2BlockRef):
            text = f"the execution engine does not show the block {wanted} that it has accepted: {_text(answer)}"
            raise FollowError(None, FollowReason.ENGINE_ANSWER, text, _code(answer))
        if answer != wanted:
            raise _other_fields(wanted, answer)
        self._confirmed.add(wanted.hash)
        return self.to_confirm() is None

    def to_confirm(self) -> L2BlockRef | None:
        """Return the block of the target that is to be compared, once the engine has accepted the move."""
        if self.target is None or self.taken is None:
            return None
        refs = self.target.local_safe, self.target.safe
        return next((ref for ref in refs if ref.hash not in self._confirmed), None)

    # --- what follows ------------------------------------------------------------------------------------------------

    def imported(self, heads: Heads) -> Heads:
        """Return the heads with those of the source, none of which goes back [FSR7]."""
        if self.status is None or self.status.local_safe.number > heads.unsafe.number:
            return heads
        safe = _higher(self.status.safe, heads.safe)
        pending = _higher(self.status.local_safe, _higher(heads.pending_safe, safe))
        moved = msgspec.structs.replace(heads, safe=safe, pending_safe=pending)
        return moved.with_finalized(self.status.finalized)

    def moved(self, heads: Heads) -> Heads | None:
        """Return the heads after the move to the source's chain, which must have our finalized block."""
        if self.target is None:
            return None
        tip = self.target.local_safe
        return Heads(tip, tip, _higher(self.target.safe, heads.finalized), heads.finalized)

    def forkchoice(self, heads: Heads) -> Forkchoice | None:
        """Return the forkchoice state of the move; None when none is due, as when our chain has grown up to it."""
        if self.target is not None and not self._replaces and not self._is_ahead(self.target, heads):
            self.target = None
            self.resumed = False
        moved = self.moved(heads)
        return None if moved is None else moved.forkchoice()

    def wait_for_sync(self, now: float) -> None:
        """Note that the engine lacks the target and fetches the chain; our own is held for a while [FSR3]."""
        # A target that the engine has and still does not take is replaced without asking for it again.
        unreached = self.target if self.target is self.syncing else None
        self._unreached = None if unreached is None else unreached.local_safe.hash
        if self.syncing is None:
            self.hold_until = now
            if now >= self._hold_at:
                self.hold_until = now + HOLD_BLOCK_TIMES * self._rollup.block_time
                self._hold_at = now + HOLD_EVERY_SECONDS
        self.syncing = self.target
        self.succeeded()
        if self.holds(now):
            self.due_at = min(now + SYNCING_SECONDS, self.hold_until)

    def reached(self, now: float) -> bool:
        """Note that the engine has taken the target; whether it replaces a block of our chain [FSR11]."""
        replaces = self._replaces
        if self.target is not None and replaces:
            self.proven = self.target.local_safe.number
        self.succeeded()
        self.due_at = self._hold_at = now
        return replaces

    def succeeded(self) -> None:
        """Note that the round ended well, or a move without one."""
        if not self.resumed:
            self.failing = False
        if self.status is not None and not self.resumed:
            current = self.status.current_l1
            known = None if current is None else self._l1.get(current.number)
            self.current_l1 = None if current is None else known or self.current_l1
        self.end_round()


def _higher(one: L2BlockRef, other: L2BlockRef) -> L2BlockRef:
    return one if one.number > other.number else other


def _invalid(reason: FollowReason, text: str) -> FollowError:
    return FollowError(FollowResult.INVALID_STATE, reason, f"the source's status is inconsistent: {text}")


def _other_fields(said: L2BlockRef, known: L2BlockRef) -> FollowError:
    """One hash, and two blocks."""
    fields = [name for name in L2BlockRef.__struct_fields__ if getattr(said, name) != getattr(known, name)]
    return _invalid(FollowReason.HEAD_FIELDS, f"its head {said} is not block {known}: {', '.join(fields)} differ")


def _text(answer: object) -> str:
    return answer.reason if isinstance(answer, Unavailable) else f"unexpected answer {type(answer).__name__}"


def _code(answer: object) -> Code | None:
    return answer.code if isinstance(answer, Unavailable) else None


ASK_SECONDS = 1.0


class StaleTargetError(Exception):
    """An L1 origin of the target is not canonical any more."""


class FollowTarget:
    """`due_at` is the monotonic time of the next call."""

    def __init__(self) -> None:
        self.due_at = 0.0
        self._status: FollowStatus | None = None
        self._is_reached = False
        self._canonical: set[int] = set()

    def start(self, status: FollowStatus) -> None:
        """Note that the source that said this is away."""
        if status is not self._status:
            self.due_at, self._status, self._is_reached = 0.0, status, False
            self._canonical.clear()

    def clear(self) -> None:
        """There is no target, or its source is back."""
        self._status = None

    def retry(self, at: float) -> None:
        """Note that the engine lacks the block or does not move to it; it is asked again at that time."""
        if self._status is not None:
            self.due_at, self._is_reached = at, False
            self._canonical.clear()

    def next(self, now: float) -> GetBlockRef | GetL1BlockRef | None:
        if self._status is None or now < self.due_at:
            return None
        if not self._is_reached:
            return GetBlockRef(self._status.local_safe.hash)
        number = next(item.number for item in _origins(self._status) if item.number not in self._canonical)
        return GetL1BlockRef(number, fresh=not self._canonical)

    def answer(self, call: GetBlockRef | GetL1BlockRef, answer: object, now: float) -> bool:
        """Take an answer; whether the chain may be moved to the target. Raises StaleTargetError to give it up."""
        if self._status is None:
            return False
        if isinstance(call, GetL1BlockRef):
            return self._take_origin(self._status, call.number, answer)
        if call.name != self._status.local_safe.hash:
            return False
        if answer is not None and not isinstance(answer, L2BlockRef):
            text = f"the execution engine does not say how far it is: {type(answer).__name__}"
            raise TemporaryError(text, Code.ENGINE_ANSWER)
        if answer is None:
            self.retry(now + ASK_SECONDS)
        else:
            self._is_reached = True
        return False

    def _take_origin(self, status: FollowStatus, number: int, answer: object) -> bool:
        if not self._is_reached:
            return False
        if not isinstance(answer, L1BlockRef):
            self._canonical.clear()
            raise TemporaryError(f"our L1 does not have L1 block {number}, an origin of {status.local_safe}")
        for origin in _origins(status):
            if origin.number == number and origin.hash != answer.hash:
                raise StaleTargetError(f"the L1 origin {origin} of {status.local_safe} is not canonical any more")
        self._canonical.add(number)
        return all(item.number in self._canonical for item in _origins(status))


def _origins(status: FollowStatus) -> tuple[BlockId, ...]:
    return tuple(ref.l1_origin for ref in (status.finalized, status.safe, status.local_safe))
