"""A follow source that lies, case by case: what its status says, what becomes of our heads, and the reason by which the
log names it. Gossip goes on meanwhile, and the source is followed again when it tells the truth [FSR2, FSR3, FSR6,
FSR7, FSR12]."""

import re
from typing import Any, NamedTuple

import msgspec
import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import FollowReason, FollowStatus
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.core.follow_rows import FollowSourceRead
from rollup_node.stages.engine.heads.follow_source import FollowResult
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.core_harness import CoreHarness
from tests.support.engine.model_engine import ModelEngine

LOCAL_SAFE, SAFE, FINALIZED, TIP = 36, 36, 24, 50
SECONDS = 11
"""A lie takes so long, as in the review that found what other nodes do."""

CHAIN = chain_with(l1_step=2)
BLOCK_TIME = CHAIN.rollup.block_time
REFS = CHAIN.build(80)
FORK = 20
UNKNOWN = [*REFS[: FORK + 1], *CHAIN.extend(REFS[FORK], 49, [CHAIN.user])]
"""The chain with other blocks after block FORK, which no engine has."""
HONEST = FollowStatus(CHAIN.l1_ref(REFS[TIP].l1_origin.number).id, REFS[LOCAL_SAFE], REFS[SAFE], REFS[FINALIZED])
KEPT = (LOCAL_SAFE, SAFE, FINALIZED)
OTHER_L1, ORIGIN = b"\x0f" * 32, REFS[30].l1_origin


def changed(**fields: Any) -> FollowStatus:
    """Return the honest status with other fields."""
    return msgspec.structs.replace(HONEST, **fields)


def heads(local_safe: L2BlockRef, safe: L2BlockRef | None = None, finalized: L2BlockRef | None = None) -> FollowStatus:
    """Return the honest status with other heads; the safe head is the local one."""
    return changed(local_safe=local_safe, safe=safe or local_safe, finalized=finalized or HONEST.finalized)


def ref(number: int, /, **fields: Any) -> L2BlockRef:
    """Return that block of our chain with other fields."""
    return msgspec.structs.replace(REFS[number], **fields)


def placed(number: int, at: int) -> L2BlockRef:
    return ref(number, number=at, timestamp=REFS[at].timestamp)


def with_origin(number: int, origin: BlockId) -> L2BlockRef:
    return ref(number, l1_origin=origin)


def with_other_l1(number: int) -> L2BlockRef:
    return with_origin(number, BlockId(REFS[number].l1_origin.number, OTHER_L1))


class Lie(NamedTuple):
    """What the source says.

    `reason`: why the status is refused, None if it is taken; `after`: our local safe, safe and finalized head in the
    end; `waits`: the engine is pointed at a block that it does not get; `behind`: the warning that the source's safe
    head went back."""

    said: FollowStatus | Unavailable
    reason: FollowReason | None
    after: tuple[int, int, int] = KEPT
    waits: bool = False
    behind: bool = False


def unread(reason: FollowReason) -> Lie:
    return Lie(Unavailable(f"127.0.0.1:1: {reason}", code=Code.FOLLOW_UNREACHABLE, cause=reason), reason)


INVALID, FETCH = FollowResult.INVALID_STATE, FollowResult.FETCH_STATUS
REFUSALS = {
    FollowReason.HEAD_ORDER: (
        INVALID,
        r"(safe head 38|finalized head 37):0x\w+ is ahead of its (local )?safe head 36:",
    ),
    FollowReason.HEAD_HASH: (INVALID, r"its safe head 36:0x\w+ is not its local safe head 36:"),
    FollowReason.OTHER_BRANCH: (INVALID, r"(safe head 37|finalized head 30):0x\w+ is not on the chain of its local"),
    FollowReason.FINALIZED: (INVALID, r"(local safe head 23|finalized head 24):0x\w+ contradicts the finalized block"),
    FollowReason.FUTURE: (INVALID, r"its local safe head 1040:0x\w+ is \d+ s ahead of this machine's clock"),
    FollowReason.BLOCK_TIME: (INVALID, r"its safe head 37:0x\w+ is of another chain: its time is"),
    FollowReason.HEAD_FIELDS: (
        INVALID,
        r"its head \d+:0x\w+ is not block \d+:0x\w+: (number, timestamp|l1_origin) differ",
    ),
    FollowReason.NO_HEAD: (INVALID, "it has no safe head yet"),
    FollowReason.GENESIS: (INVALID, r"its finalized head 0:0x\w+ is of another chain: genesis is 0:"),
    FollowReason.L1_MISMATCH: (
        FollowResult.L1_MISMATCH,
        r"the (L1 origin of the (finalized|safe) head|current L1 block) of the source, \S+, is not canonical: our L1",
    ),
    FollowReason.L1_UNKNOWN: (FollowResult.L1_LOOKUP, "our L1 does not have L1 block 200 of the source"),
    **{reason: (FETCH, f"127.0.0.1:1: {reason}") for reason in list(FollowReason)[:4]},
}
"""As what each refusal is counted, and what operators read of it."""

FAR = msgspec.structs.replace(UNKNOWN[40], number=1040, timestamp=REFS[0].timestamp + 1040 * BLOCK_TIME)
LIES = {
    "safe above local safe": Lie(heads(REFS[36], REFS[38]), FollowReason.HEAD_ORDER),
    "finalized above safe": Lie(heads(REFS[36], REFS[36], REFS[37]), FollowReason.HEAD_ORDER),
    "unknown local safe": Lie(heads(UNKNOWN[36], REFS[36]), FollowReason.HEAD_HASH),
    "unknown safe": Lie(heads(REFS[36], UNKNOWN[36]), FollowReason.HEAD_HASH),
    "unknown safe below local safe": Lie(heads(REFS[38], UNKNOWN[37]), FollowReason.OTHER_BRANCH),
    "unknown both": Lie(heads(UNKNOWN[36]), None, waits=True),
    "unknown finalized": Lie(heads(REFS[36], REFS[36], UNKNOWN[30]), FollowReason.OTHER_BRANCH),
    "other finalized at our height": Lie(heads(REFS[36], REFS[36], UNKNOWN[24]), FollowReason.FINALIZED),
    "unknown block ahead": Lie(heads(UNKNOWN[56]), None, waits=True),
    "unknown block far ahead": Lie(heads(FAR), FollowReason.FUTURE),
    "known hash with another number": Lie(heads(ref(36, number=37)), FollowReason.BLOCK_TIME),
    "known hash with number and time of another": Lie(heads(placed(36, at=56)), FollowReason.HEAD_FIELDS),
    "our tip's hash with number and time of another": Lie(heads(placed(TIP, at=38)), FollowReason.HEAD_FIELDS),
    "known block with another canonical origin": Lie(heads(with_origin(38, ORIGIN)), FollowReason.HEAD_FIELDS),
    "safe and finalized back": Lie(heads(REFS[36], REFS[26], REFS[14]), None, behind=True),
    "unknown below our finalized": Lie(heads(UNKNOWN[23], UNKNOWN[22], UNKNOWN[21]), FollowReason.FINALIZED),
    "all below our finalized": Lie(heads(REFS[20], REFS[18], REFS[16]), None, behind=True),
    "wrong L1 origin": Lie(heads(with_other_l1(36)), FollowReason.L1_MISMATCH),
    "wrong L1 origin of the safe head": Lie(heads(REFS[48], with_other_l1(36)), FollowReason.L1_MISMATCH),
    "wrong L1 origin of the finalized head": Lie(
        heads(REFS[36], REFS[36], with_other_l1(24)), FollowReason.L1_MISMATCH
    ),
    "wrong current L1": Lie(changed(current_l1=BlockId(126, OTHER_L1)), FollowReason.L1_MISMATCH),
    "current L1 far above ours": Lie(changed(current_l1=BlockId(200, OTHER_L1)), None),
    "L1 origin above ours": Lie(heads(with_origin(36, BlockId(200, OTHER_L1))), FollowReason.L1_UNKNOWN),
    "all zero": Lie(heads(L2BlockRef(bytes(32), 0, bytes(32), 0, BlockId(0, bytes(32)), 0)), FollowReason.NO_HEAD),
    "genesis of another chain": Lie(heads(REFS[36], REFS[36], ref(0, hash=OTHER_L1)), FollowReason.GENESIS),
    "safe is the unsafe head": Lie(heads(REFS[TIP]), None, after=(TIP, TIP, FINALIZED)),
    "finalized is the unsafe head": Lie(heads(REFS[TIP], REFS[TIP], REFS[TIP]), None, after=(TIP, TIP, TIP)),
    "safe far below local safe": Lie(heads(REFS[44], REFS[30]), None, after=(44, SAFE, FINALIZED), behind=True),
    "no local safe": unread(FollowReason.MALFORMED),
    "the same status for ever": Lie(HONEST, None),
    "HTTP status": unread(FollowReason.HTTP_STATUS),
    "HTML, or a result of null": unread(FollowReason.MALFORMED),
    "JSON-RPC error": unread(FollowReason.RPC_ERROR),
    "no answer in time": unread(FollowReason.NO_ANSWER),
}


class Follower:
    """A node that follows an honest source, with gossip that brings a block in every block time."""

    def __init__(self) -> None:
        self.engine = ModelEngine(CHAIN)
        self.engine.head = REFS[TIP].hash
        self.engine.lost = {item.hash for item in UNKNOWN[FORK + 1 :]} | {ref.hash for ref in REFS[TIP + 1 :]}
        self.harness = CoreHarness(CHAIN, self.engine, follow_url="http://source")
        self.harness.wait(float(TIP * BLOCK_TIME) + 20.0)
        self.harness.source = HONEST
        self.harness.move_l1(130)
        self.tip = TIP
        self.run(5)
        assert self.heads == KEPT and not self.failed()

    def run(self, seconds: int, *, gossip: bool = False) -> None:
        """Lets time pass."""
        for second in range(seconds):
            if gossip and second % BLOCK_TIME == 0:
                self.tip += 1
                self.harness.gossip(CHAIN.payloads[REFS[self.tip].hash])
            self.harness.run_until_idle(2000)
            self.harness.wait(1.0)

    @property
    def heads(self) -> tuple[int, int, int]:
        """The numbers of local safe, safe and finalized head that others see."""
        status = self.harness.status
        assert status.local_safe is not None and status.safe is not None and status.finalized is not None
        for item in (status.local_safe, status.safe, status.finalized, status.unsafe):
            assert item in REFS, "a block of our chain, in all its fields"
        return status.local_safe.number, status.safe.number, status.finalized.number

    @property
    def unsafe(self) -> int:
        result = self.harness.status.unsafe
        return -1 if result is None else result.number

    def failed(self) -> set[str]:
        """Return the reasons of failed rounds."""
        return {item.reason for item in self.harness.done(act.WorkFailed)}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_changes_nothing_that_is_not_so(name: str) -> None:
    lie = LIES[name]
    follower = Follower()
    follower.harness.source = lie.said
    follower.run(SECONDS, gossip=True)
    assert follower.heads == lie.after
    assert follower.failed() == (set() if lie.reason is None else {lie.reason})
    if lie.reason is not None:
        result, text = REFUSALS[lie.reason]
        results = {item.result for item in follower.harness.done(FollowSourceRead)} - {FollowResult.SUCCESS}
        # That the engine has other fields may show only after the move, of which nothing is counted.
        assert results == {result} or (lie.reason is FollowReason.HEAD_FIELDS and not results)
        assert all(re.search(text, failure) for failure in follower.harness.failures)
    assert follower.unsafe == follower.tip, "gossip goes on"
    assert bool(follower.harness.done(act.FetchLasts)) is lie.waits
    assert len(follower.harness.logged("the follow source's safe head went back")) == lie.behind
    assert not follower.harness.done(act.ResetStarted)
    assert not follower.harness.logged("moved to the follow source's chain")
    follower.harness.source = heads(REFS[52], REFS[51], REFS[50])
    follower.run(4, gossip=True)
    assert follower.heads == (52, 51, 50) and follower.unsafe == follower.tip
    assert bool(follower.harness.done(act.FetchEnded)) is lie.waits
    assert not follower.harness.failing


def test_another_chain_with_our_genesis_time_is_named_once_the_engine_does_not_get_its_block() -> None:
    """[FSR8] Its heads look like blocks to fetch."""
    follower = Follower()
    wrong = Unavailable("127.0.0.1:1 is on L2 chain 902", False, Code.FOLLOW_CHAIN, FollowReason.WRONG_CHAIN)
    follower.harness.source, follower.harness.source_chain = heads(UNKNOWN[56]), wrong
    follower.run(SECONDS, gossip=True)
    assert follower.heads == KEPT and follower.unsafe == follower.tip
    assert follower.failed() == {FollowReason.WRONG_CHAIN}
