"""What holds the rounds [VR15]."""

import msgspec
import pytest

from rollup_node.stages.interop.holding import (
    MAX_LEAD,
    PATIENCE_SECONDS,
    SETTLE_SECONDS,
    ChainState,
    going_back,
    holding_chain,
    obstacle_of,
    verdicts,
)
from rollup_node.stages.interop.rounds import (
    Decided,
    InvalidateHeads,
    InvalidHead,
    Rewind,
    StoreState,
    VerifiedRound,
    Wait,
    WaitReason,
)
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import ChainVerdict, DeniedBlock, Verdicts
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L2BlockRef
from tests.support.interop.values import block, dependency_set, member

CONFIG = dependency_set(member(1), member(2), member(3, block_time=2))
T = 2000


def at(timestamp: int, chain_id: int = 1, error: str = "") -> ChainState:
    """Return a chain whose local safe block is that of a time."""
    number = CONFIG.chains[chain_id].block_number_at(timestamp)
    return ChainState(L2BlockRef(bytes(32), number, ZERO_HASH, timestamp, BlockId(0, ZERO_HASH), 0), error)


def held(chains: dict[int, ChainState]) -> tuple[str, str] | None:
    """Return which chain holds the others, and why."""
    result = holding_chain(CONFIG, T, chains)
    return None if result is None else (result.subject, result.text)


FAR, BEHIND = T + MAX_LEAD, T - 1


@pytest.mark.parametrize(
    ("chains", "wanted"),
    [
        ({1: at(T), 2: at(T), 3: at(T, 3)}, None),
        ({1: at(BEHIND), 2: at(FAR), 3: at(FAR - 2, 3)}, None),
        ({1: at(BEHIND), 2: at(BEHIND), 3: at(BEHIND, 3)}, None),
        ({1: at(BEHIND), 2: at(FAR), 3: at(FAR, 3)}, "chain 1"),
        ({1: at(BEHIND), 2: at(BEHIND - 1), 3: at(FAR, 3)}, "chain 2"),
        ({1: at(FAR), 2: ChainState(None), 3: at(T - 100, 3)}, "chain 2"),
        ({1: at(T), 2: at(T), 3: at(T, 3, "no answer")}, "chain 3"),
    ],
)
def test_the_chain_that_holds_the_others(chains: dict[int, ChainState], wanted: str | None) -> None:
    """One that says nothing before one that is far behind; that batches come at other times is ordinary."""
    result = held(chains)
    assert (None if result is None else result[0]) == wanted


def test_the_reason_is_the_engines_or_the_lead() -> None:
    assert held({1: at(T), 2: at(T, error="it is away"), 3: at(T, 3)}) == (
        "chain 2",
        "it holds the others: it is away",
    )
    assert held({1: at(T), 2: ChainState(None)}) == ("chain 2", "it holds the others: it has no safe head")
    lead = held({1: at(BEHIND), 2: at(T + 3600)})
    assert lead is not None and "1h0m behind theirs" in lead[1]


@pytest.mark.parametrize(
    ("reason", "code", "patience"),
    [
        (WaitReason.NO_HISTORY, Code.INTEROP_HISTORY, 0),
        (WaitReason.L1_FINAL, Code.INTEROP_L1_FINAL, 0),
        (WaitReason.DIVERGED, Code.INTEROP_DIVERGED, 0),
        (WaitReason.NO_LOGS, Code.INTEROP_LOGS, 0),
        (WaitReason.L1_UNSETTLED, Code.INTEROP_WAITS, SETTLE_SECONDS),
        (WaitReason.NOT_READY, None, 0),
    ],
)
def test_the_code_of_each_wait(reason: WaitReason, code: Code | None, patience: float) -> None:
    result = obstacle_of(CONFIG, Wait(reason, 2, "why"), T, {1: at(T), 2: at(BEHIND)})
    assert (None if result is None else result.code) == code
    if result is not None:
        assert (result.subject, result.patience) == ("chain 2", patience) and "why" in result.text


def test_an_obstacle_is_a_problem_once_it_lasts() -> None:
    assert going_back(2).problem(PATIENCE_SECONDS - 1) is None
    problem = Problem(Code.INTEROP_WAITS, "chain 2", "it has not gone back yet, for 10s")
    assert going_back(2).problem(PATIENCE_SECONDS) == problem
    about_l1 = obstacle_of(CONFIG, Wait(WaitReason.L1_FINAL, None, "block"), T, {})
    assert about_l1 is not None and about_l1.subject == "L1" and about_l1.problem(0) is not None


VERDICTS_CONFIG = dependency_set(member(1), member(2, block_time=2), activation=1010)
L1 = BlockId(20, b"\x14" * 32)
TIPS = {1: block(100, 1100).id, 2: block(50, 1100).id}
STATE = StoreState(TIPS, VerifiedRound(1100, L1, 1090))
DENIED = (DeniedBlock(40, b"\x28" * 32),)


def told(state: StoreState, chain_id: int) -> ChainVerdict:
    return verdicts(VERDICTS_CONFIG, state, Decided(9, {}, 0, {})).chains[chain_id]


def test_after_a_round_its_heads_are_verified() -> None:
    final = {1: block(90, 1090).id}
    assert verdicts(VERDICTS_CONFIG, STATE, Decided(9, {2: DENIED}, 0, final)) == Verdicts(
        {1: ChainVerdict(TIPS[1], final[1], (), 9, None), 2: ChainVerdict(TIPS[2], None, DENIED, 9, None)},
        1010,
        L1,
        1100,
    )


def test_without_a_round_nothing_is_verified() -> None:
    """[LB3]: whatever logs are read already."""
    result = verdicts(VERDICTS_CONFIG, msgspec.structs.replace(STATE, verified=None), Decided(0, {}, 0, {}))
    assert (result.current_l1, result.timestamp) == (None, 0)
    assert [verdict.verified for verdict in result.chains.values()] == [None, None]


def test_the_chain_of_a_denied_block_goes_back_to_its_parent() -> None:
    """[IV3]: the hash is zero where the parent was never stored."""
    pending = InvalidateHeads(1101, L1, (InvalidHead(1, block(101, 1101).id, b"", b"", ""),))
    state = msgspec.structs.replace(STATE, pending=pending)
    assert told(state, 1).go_back == TIPS[1] and told(state, 2).go_back is None
    assert told(msgspec.structs.replace(state, tips={}), 1).go_back == BlockId(100, ZERO_HASH)


def test_all_chains_go_back_before_a_rewind() -> None:
    """[RA1]: not below their genesis blocks."""
    state = msgspec.structs.replace(STATE, pending=Rewind(1101))
    assert (told(state, 1).go_back, told(state, 2).go_back) == (TIPS[1], TIPS[2])
    state = StoreState({}, pending=Rewind(1010))
    assert (told(state, 1).go_back, told(state, 2).go_back) == (BlockId(9, ZERO_HASH), BlockId(4, ZERO_HASH))
    genesis = VERDICTS_CONFIG.chains[2].genesis.l2
    assert told(StoreState({}, pending=Rewind(1000)), 2).go_back == genesis
