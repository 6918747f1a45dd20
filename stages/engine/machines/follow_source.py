"""Follows the heads of another node instead of deriving [FSR1 to FSR9]. A round reads the source's status, compares its
L1 blocks with our L1 and its L2 blocks with our engine, and ends with heads to import or with a block to move to.

| state     | next call                                | then                                                       |
|-----------|------------------------------------------|------------------------------------------------------------|
| idle      | the status, when it is due               | checking; idle if it is inconsistent                       |
| checking  | an L1 block of the status, each once     | checking; idle if it is not canonical                      |
| checking  | an L2 block of the status that our chain | ready, all are in our chain; moving, our chain has another |
|           | should have                              | local safe block; idle, the status lies                    |
| checking  | with a shorter chain, the block that the | moving, to that block if it is there, else to the local    |
|           | engine fetches the chain up to           | safe head                                                  |
| ready     |                                          | idle, when the heads are imported                          |
| moving    | (a forkchoice update, see follow_calls)  | idle, when it is answered                                  |"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise

import msgspec

from rollup_node.stages.engine.api.engine_api import GetBlockRef, Unavailable
from rollup_node.stages.engine.api.follow_api import FollowStatus, GetFollowStatus
from rollup_node.stages.engine.api.heads import Forkchoice, Heads
from rollup_node.stages.engine.machines.pipeline_start import GetL1BlockRef
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.foreign_fork import network_left
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

FollowCall = GetFollowStatus | GetL1BlockRef | GetBlockRef


class FollowResult(StrEnum):
    """How a round ended, as counted in `follow_source_requests_total` [FSR4]."""

    SUCCESS = "success"
    FETCH_STATUS = "error_fetch_status"
    INVALID_STATE = "error_invalid_state"
    L1_LOOKUP = "error_l1_lookup"
    L1_MISMATCH = "error_l1_mismatch"


class FollowError(TemporaryError):
    """A round ended without heads. `result` is None where the source is not the cause."""

    def __init__(self, result: FollowResult | None, text: str) -> None:
        super().__init__(text)
        self.result = result


class MissingFollowedBlockError(FollowError):
    """The engine lacks a block of our own chain, as after a restart at an earlier one."""


class FollowResetError(ResetError):
    """A sequencer starts over with these heads, those after a move to the source's chain."""

    def __init__(self, heads: Heads) -> None:
        super().__init__(f"the follow source has the safe head {heads.unsafe}")
        self.heads = heads


class FollowSource:
    """`status` is that of the present round; `ready`: its heads may be imported. `target` is the status whose local
    safe head our tip is to become first, `syncing` the target that the engine fetches the chain up to, as far as is
    known. `resumed`: the engine has reached it without the source, which fails since `failing_since`, None if it works.
    `start_heads` are those to start over with. `current_l1` is that of the last round that ended well. Times are
    monotonic seconds."""

    def __init__(self, rollup: RollupConfig, enabled: bool) -> None:
        self.enabled = enabled
        self.status: FollowStatus | None = None
        self.ready = False
        self.target: FollowStatus | None = None
        self.syncing: FollowStatus | None = None
        self.resumed = False
        self.failing_since: float | None = None
        self.start_heads: Heads | None = None
        self.current_l1: L1BlockRef | None = None
        self.due_at = 0.0
        self._rollup = rollup
        self._l1: dict[int, L1BlockRef | None] = {}
        self._compared: set[int] = set()
        self._unreached: Hash | None = None

    @property
    def interval(self) -> float:
        """Seconds between two rounds: two blocks."""
        return 2.0 * self._rollup.block_time

    def end_round(self, due_at: float) -> None:
        """Forgets the status; another one is read at that time."""
        self.status, self.target, self.due_at = None, None, due_at
        self.ready = self.resumed = False
        self._l1.clear()
        self._compared.clear()

    def on_reset(self, error: ResetError) -> None:
        """There are no heads: what was compared with them does not hold."""
        self.start_heads = error.heads if isinstance(error, FollowResetError) else None
        self.end_round(0.0)
        self.failing_since = None
        self.give_up()

    def give_up(self) -> None:
        """No block is waited for."""
        self.syncing = self._unreached = None

    def failed(self, error: FollowError, now: float) -> None:
        """A round ended without heads. A move that needs no status stays due."""
        if error.result is None:
            self.failing_since = None
        elif self.failing_since is None:
            self.failing_since = now
        if not self.resumed:
            self.end_round(now)

    def resume(self) -> None:
        """The engine has fetched the chain that it was pointed at: it is moved to without a status."""
        self.end_round(self.due_at)
        self.target, self.resumed = self.syncing, True

    # --- a round ---------------------------------------------------------------------------------------------------

    def next(self, heads: Heads, now: float) -> FollowCall | None:
        """The call that is due, while these heads are in force."""
        if not self.enabled or self.ready or self.target is not None:
            return None
        if self.status is None:
            return GetFollowStatus() if now >= self.due_at else None
        for block, _ in self._l1_blocks(self.status):
            if block.number not in self._l1:
                return GetL1BlockRef(block.number, fresh=not self._l1)
        if self._is_ahead(self.status, heads) and self.syncing is not None:
            return GetBlockRef(self.syncing.local_safe.hash)
        return next((GetBlockRef(ref.number) for ref, _ in self._to_compare(self.status, heads)), None)

    def answer(self, call: FollowCall, answer: object, heads: Heads) -> None:
        """Takes the answer to a call. Raises FollowError, after which the round is to be ended."""
        if isinstance(call, GetFollowStatus):
            if not isinstance(answer, FollowStatus):
                raise FollowError(FollowResult.FETCH_STATUS, _reason(answer))
            self._check(answer, heads)
            self.status = answer
        elif self.status is not None and isinstance(call, GetL1BlockRef):
            self._take_l1(self.status, call.number, answer)
        elif self.status is not None and isinstance(call, GetBlockRef):
            if self.syncing is not None and call.name == self.syncing.local_safe.hash:
                self._take_synced(self.status, self.syncing, answer)
            else:
                self._take_l2(self.status, call.name, answer, heads)
        if self.status is not None and self.target is None:
            self._decide(self.status, heads)

    def _decide(self, status: FollowStatus, heads: Heads) -> None:
        if any(block.number not in self._l1 for block, _ in self._l1_blocks(status)):
            return
        if self._is_ahead(status, heads):
            if self.syncing is None or self.syncing.local_safe.hash in (status.local_safe.hash, self._unreached):
                self.target = status
        elif not any(self._to_compare(status, heads)):
            self.ready = True

    # --- what the source says ----------------------------------------------------------------------------------------

    def _check(self, status: FollowStatus, heads: Heads) -> None:
        """Raises FollowError for heads that contradict each other, the chain's config or what is final [FSR2, FSR6].
        Raises NetworkLeftError where the source is beyond a foreign fork [LFT4]."""
        if self._rollup.is_foreign(status.local_safe.timestamp):
            raise network_left(self._rollup, status.local_safe)
        named = ((status.finalized, "finalized"), (status.safe, "safe"), (status.local_safe, "local safe"))
        for ref, name in named:
            self._check_ref(ref, name)
        for (lower, lower_name), (upper, upper_name) in pairwise(named):
            if lower.number > upper.number:
                raise _invalid(f"its {lower_name} head {lower} is ahead of its {upper_name} head {upper}")
            if lower.number == upper.number and lower.hash != upper.hash:
                raise _invalid(f"its {lower_name} head {lower} is not its {upper_name} head {upper}")
        for ref, name in named:
            if ref.number == heads.finalized.number and ref.hash != heads.finalized.hash:
                raise _invalid(f"its {name} head {ref} contradicts the finalized block {heads.finalized}")

    def _check_ref(self, ref: L2BlockRef, name: str) -> None:
        genesis = self._rollup.genesis
        if not any(ref.hash):
            raise _invalid(f"it has no {name} head yet")
        above = ref.number - genesis.l2.number
        if above < 0 or (above == 0 and ref.hash != genesis.l2.hash):
            raise _invalid(f"its {name} head {ref} is of another chain: genesis is {genesis.l2}")
        if ref.timestamp != genesis.l2_time + above * self._rollup.block_time:
            raise _invalid(f"its {name} head {ref} is of another chain: its time is {ref.timestamp}")

    def _l1_blocks(self, status: FollowStatus) -> Iterator[tuple[BlockId, str]]:
        """The L1 blocks of a status, lowest first, so that our L1 is asked for what it has had longest."""
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
            reason = _reason(answer) if answer is not None else f"our L1 does not have L1 block {number} of the source"
            raise FollowError(FollowResult.L1_LOOKUP, reason)
        for block, name in self._l1_blocks(status):
            if block.number == number and block.hash != answer.hash:
                text = f"the {name} of the source, {block}, is not canonical: our L1 has {answer}"
                raise FollowError(FollowResult.L1_MISMATCH, text)
        self._l1[number] = answer

    # --- our chain ---------------------------------------------------------------------------------------------------

    def _to_compare(self, status: FollowStatus, heads: Heads) -> Iterator[tuple[L2BlockRef, str]]:
        """The blocks that our chain should have, and has not been asked for."""
        if self._is_ahead(status, heads):
            return
        known = {ref.hash for ref in (heads.unsafe, heads.pending_safe, heads.safe, heads.finalized)}
        named = ((status.local_safe, "local safe"), (status.safe, "safe"), (status.finalized, "finalized"))
        for ref, name in named:
            if ref.number not in self._compared and ref.hash not in known:
                yield ref, name

    def _is_ahead(self, status: FollowStatus, heads: Heads) -> bool:
        return status.local_safe.number > heads.unsafe.number

    def _take_synced(self, status: FollowStatus, syncing: FollowStatus, answer: object) -> None:
        """The engine has fetched the chain up to a target, or gets a newer one."""
        if isinstance(answer, L2BlockRef) and answer.number > 0:
            self.target = syncing
        elif answer is None:
            self.target = status
        else:
            raise FollowError(None, f"the execution engine does not say how far it is: {_reason(answer)}")

    def _take_l2(self, status: FollowStatus, number: object, answer: object, heads: Heads) -> None:
        if answer is None:
            raise MissingFollowedBlockError(None, f"block {number} of our chain is missing in the execution engine")
        if not isinstance(answer, L2BlockRef):
            raise FollowError(None, f"block {number} of the source cannot be compared: {_reason(answer)}")
        for ref, name in self._to_compare(status, heads):
            if ref.number != number or ref.hash == answer.hash:
                continue
            if ref.number <= heads.finalized.number:
                raise _invalid(f"its {name} head {ref} contradicts the finalized block {heads.finalized}")
            if ref != status.local_safe:
                raise _invalid(f"its {name} head {ref} is not on the chain of its local safe head {status.local_safe}")
            self.target = status
        self._compared.add(answer.number)

    # --- what follows ------------------------------------------------------------------------------------------------

    def imported(self, heads: Heads) -> Heads:
        """The heads with those of the source, none of which goes back [FSR7]."""
        if self.status is None or self.status.local_safe.number > heads.unsafe.number:
            return heads
        safe = _higher(self.status.safe, heads.safe)
        pending = _higher(self.status.local_safe, _higher(heads.pending_safe, safe))
        moved = msgspec.structs.replace(heads, safe=safe, pending_safe=pending)
        return moved.with_finalized(self.status.finalized)

    def moved(self, heads: Heads) -> Heads | None:
        """The heads after the move to the source's chain. The finalized block stays, so that the engine checks that
        it is an ancestor."""
        if self.target is None:
            return None
        tip = self.target.local_safe
        return Heads(tip, tip, _higher(self.target.safe, heads.finalized), heads.finalized)

    def forkchoice(self, heads: Heads) -> Forkchoice | None:
        """The forkchoice state of the move; None when none is due."""
        moved = self.moved(heads)
        return None if moved is None else moved.forkchoice()

    def wait_for_sync(self, due_at: float) -> None:
        """The engine lacks the target and fetches the chain."""
        # A target that the engine has and still does not take is replaced without asking for it again.
        unreached = self.target if self.target is self.syncing else None
        self._unreached = None if unreached is None else unreached.local_safe.hash
        self.syncing = self.target
        self.succeeded(due_at)

    def succeeded(self, due_at: float) -> None:
        """The round ended well, or a move without one."""
        if not self.resumed:
            self.failing_since = None
        if self.status is not None and not self.resumed:
            current = self.status.current_l1
            known = None if current is None else self._l1.get(current.number)
            self.current_l1 = None if current is None else known or self.current_l1
        self.end_round(due_at)


def _higher(one: L2BlockRef, other: L2BlockRef) -> L2BlockRef:
    return one if one.number > other.number else other


def _invalid(text: str) -> FollowError:
    return FollowError(FollowResult.INVALID_STATE, f"the source's status is inconsistent: {text}")


def _reason(answer: object) -> str:
    return answer.reason if isinstance(answer, Unavailable) else f"unexpected answer {type(answer).__name__}"
