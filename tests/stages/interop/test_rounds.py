"""Rounds, step by step [VR1 to VR14, IV2 to IV4, RA1]; test_against_model.py has whole histories."""

from collections.abc import Mapping

import msgspec
import pytest

from rollup_node.stages.interop.message_checks import LogPlace
from rollup_node.stages.interop.rounds import (
    NONE,
    Advance,
    AskChains,
    AskL1,
    AskStored,
    ChainBlock,
    Deliver,
    InvalidateHeads,
    InvalidHead,
    L1Hashes,
    LogRange,
    Observed,
    Rewind,
    Step,
    StoreState,
    VerifiedRound,
    Wait,
    WaitReason,
    backfill,
    diverged,
    next_step,
    outdated,
    start_time,
)
from rollup_node.stages.protocol.types import BlockId
from tests.support.interop.values import Claim, block, dependency_set, logs_of, member

CONFIG = dependency_set(member(1), member(2, block_time=2), activation=1010)
T = 1100
TIPS = {1: block(99, 1099), 2: block(49, 1098)}


def l1(number: int, branch: int = 0) -> BlockId:
    return BlockId(number, bytes([branch]) * 31 + bytes([number]))


SOURCE = l1(21)
STATE = StoreState({chain: tip.id for chain, tip in TIPS.items()}, VerifiedRound(1099, l1(20), 1090))
HASHES: L1Hashes = {20: l1(20).hash, 21: l1(21).hash, 22: l1(22).hash}
L1_FINAL = 10


def head(chain_id: int, *logs: bytes | Claim, time: int = T, source: BlockId = SOURCE) -> ChainBlock:
    """Return the chain's block at a time, on its tip."""
    number = CONFIG.chains[chain_id].block_number_at(time)
    ref = block(number, CONFIG.chains[chain_id].timestamp_of(number), TIPS[chain_id].hash)
    return ChainBlock(logs_of(ref, logs), b"\x05" * 32, b"\x06" * 32, source)


HEADS = {1: head(1, b"one"), 2: head(2, source=l1(22))}


def decide(
    heads: Mapping[int, ChainBlock | WaitReason] = HEADS,
    hashes: L1Hashes = HASHES,
    state: StoreState = STATE,
    stored: Mapping[LogPlace, bytes | None] | None = None,
    l1_final: int = L1_FINAL,
) -> Step:
    """Return the step after the answers of the chains and of L1."""
    return next_step(CONFIG, state, Observed(heads, hashes, stored), l1_final)


def test_the_steps_of_a_round() -> None:
    """[VR5]: the chains, then L1, then the database."""
    assert next_step(CONFIG, STATE, Observed()) == AskChains(T)
    claim = Claim(1, 95, 0, 1095, b"old")
    heads = {1: HEADS[1], 2: head(2, claim)}
    assert next_step(CONFIG, STATE, Observed(heads)) == AskL1(frozenset({20, 21}))
    place = LogPlace(1, 95, 0)
    assert decide(heads) == AskStored(frozenset({place}))
    assert isinstance(decide(heads, stored={place: claim.log_hash}), Advance)
    assert decide(heads, stored={place: None}) == Wait(WaitReason.NO_LOGS, 1, "block 95")
    assert isinstance(decide(heads, stored={place: b""}), InvalidateHeads)


def test_a_round_with_an_invalid_head_invalidates_it() -> None:
    """[VR5, VR8, IV2]: with what its output root is made of."""
    result = decide({1: head(1, Claim(9, 1, 1, 1, b"")), 2: HEADS[2]})
    assert isinstance(result, InvalidateHeads) and (result.timestamp, result.l1) == (T, l1(22))
    (invalid,) = result.heads
    assert invalid.chain_id == 1 and invalid.block == head(1).logs.block.id
    assert (invalid.state_root, invalid.storage_root) == (b"\x05" * 32, b"\x06" * 32)
    assert "chain 9" in invalid.reason and "[EM1]" in invalid.reason


@pytest.mark.parametrize("reason", [WaitReason.NOT_READY, WaitReason.NO_HISTORY])
def test_a_chain_without_its_block_is_waited_for(reason: WaitReason) -> None:
    """[VR3]: also one whose process does not answer."""
    assert decide({**HEADS, 2: reason}) == Wait(reason, 2)
    assert decide({1: HEADS[1]}) == Wait(WaitReason.NOT_READY, 2)


@pytest.mark.parametrize("hashed", [None, l1(22, 1).hash])
def test_a_head_of_another_l1_chain_is_waited_for(hashed: bytes | None) -> None:
    """[VR4]: its chain has not followed L1 yet."""
    assert decide(hashes={**HASHES, 22: hashed}) == Wait(WaitReason.L1_UNSETTLED, 2, str(l1(22)))


LEFT = {**HASHES, 20: l1(20, 1).hash}


def test_an_l1_block_that_is_not_there_now_decides_nothing() -> None:
    """[VR4]: L1's chain is shorter for a moment."""
    assert decide(hashes={**HASHES, 20: None}) == Wait(WaitReason.L1_UNSETTLED, None, str(l1(20)))


def test_nothing_goes_back_below_the_finalized_l1_block() -> None:
    """[VR13]"""
    result = decide(hashes=LEFT, l1_final=20)
    assert result == Wait(WaitReason.L1_FINAL, None, str(l1(20)))


@pytest.mark.parametrize(
    "ref",
    [
        block(100, 1100, b"\x01" * 32),  # on another block than the verified one
        block(101, 1101, TIPS[1].hash),  # of another time
        block(100, 1101, TIPS[1].hash),
        block(99, 1099, b"\x01" * 32),
    ],
)
def test_a_block_that_does_not_follow_is_not_verified(ref: object) -> None:
    """[VR11]: nothing is guessed while the chain has another block than the verified one."""
    logs = msgspec.structs.replace(head(1).logs, block=ref)
    result = decide({**HEADS, 1: msgspec.structs.replace(head(1), logs=logs)})
    assert isinstance(result, Wait) and (result.reason, result.chain_id) == (WaitReason.DIVERGED, 1)


def test_a_head_that_stays_is_the_verified_one() -> None:
    """[VR11]: of a slow chain, in the second second of its block."""
    state = StoreState({1: block(100, 1100).id, 2: block(50, 1100).id}, VerifiedRound(1100, l1(20), 1090))
    first = ChainBlock(logs_of(block(101, 1101, state.tips[1].hash), []), b"", b"", SOURCE)
    for ref, decided in ((block(50, 1100), Advance), (block(50, 1100, b"\x01" * 32), Wait)):
        second = ChainBlock(logs_of(ref, []), b"", b"", SOURCE)
        assert isinstance(decide({1: first, 2: second}, state=state), decided)


def test_a_chain_that_joins_needs_its_logs_first() -> None:
    """[VR10]: or begins with its genesis block."""
    state = msgspec.structs.replace(STATE, tips={1: STATE.tips[1]})
    result = decide(state=state)
    assert isinstance(result, Wait) and (result.reason, result.chain_id) == (WaitReason.NO_LOGS, 2)
    assert isinstance(decide(state=msgspec.structs.replace(state, verified=None)), Advance)
    config = dependency_set(CONFIG.chains[1], member(2, 2, T, number=7), activation=1010)
    young = ChainBlock(logs_of(block(7, T), []), b"", b"", l1(21))
    assert isinstance(next_step(config, state, Observed({1: HEADS[1], 2: young}, HASHES)), Advance)


# --- transitions -----------------------------------------------------------------------------------------------------

INVALID = InvalidateHeads(T, l1(22), (InvalidHead(2, block(50, 1100).id, b"", b"", "expired"),))


@pytest.mark.parametrize(("pending", "chains"), [(INVALID, (2,)), (Rewind(T), (1, 2))])
def test_a_transition_goes_to_its_chains_until_it_is_finished(
    pending: InvalidateHeads | Rewind, chains: tuple[int]
) -> None:
    """[VR6, IV4, RA1]: no round meanwhile, also after a restart."""
    state = msgspec.structs.replace(STATE, pending=pending)
    assert next_step(CONFIG, state, Observed()) == AskL1(frozenset({20}))
    assert next_step(CONFIG, state, Observed(l1=HASHES)) == Deliver(pending, chains)


def test_a_transition_is_void_once_l1_has_left_it() -> None:
    """[RA1]: the next one takes its place."""
    state = msgspec.structs.replace(STATE, pending=INVALID, decided=l1(22))
    hashes = {20: l1(20).hash, 22: l1(22, 1).hash}
    assert next_step(CONFIG, state, Observed(l1=hashes)) == Rewind(T)
    shorter = {20: l1(20, 1).hash, 22: None}
    assert next_step(CONFIG, state, Observed(l1=shorter)) == Rewind(1090), "by the lowest block that L1 has left"
    state = msgspec.structs.replace(STATE, pending=Rewind(T))
    assert next_step(CONFIG, state, Observed(l1=LEFT)) == Rewind(1090)


# --- resume ----------------------------------------------------------------------------------------------------------


def test_a_start_finds_that_a_chain_has_another_block() -> None:
    """[VR14]: but for a change of L1, a pending transition, or nothing verified."""
    canonical = {1: STATE.tips[1].hash, 2: b"\x01" * 32}
    result = diverged(STATE, canonical, HASHES)
    assert result is not None and (result.reason, result.chain_id) == (WaitReason.DIVERGED, 2)
    assert diverged(STATE, {**canonical, 2: None}, HASHES) is None, "a chain that is behind is waited for"
    assert diverged(STATE, canonical, LEFT) is None
    assert diverged(msgspec.structs.replace(STATE, pending=Rewind(T)), canonical, HASHES) is None
    assert diverged(msgspec.structs.replace(STATE, verified=None), canonical, HASHES) is None


BACKFILL_CONFIG = dependency_set(member(1), member(2, block_time=2), activation=1010)
TIP = BlockId(150, b"\x01" * 32)
L1 = BlockId(1, b"\x02" * 32)
EMPTY = StoreState({})


@pytest.mark.parametrize(
    ("safe_time", "depth", "wanted"),
    [
        (1009, 100, {}),  # interop begins after it
        (1010, 100, {1: LogRange(10, 10, NONE), 2: LogRange(5, 5, NONE)}),
        (1100, 10_000, {1: LogRange(10, 100, NONE), 2: LogRange(5, 50, NONE)}),
        (1101, 50, {1: LogRange(51, 101, NONE), 2: LogRange(25, 50, NONE)}),
        (1101, 0, {1: LogRange(101, 101, NONE), 2: LogRange(50, 50, NONE)}),
    ],
)
def test_ranges_of_an_empty_database(safe_time: int, depth: int, wanted: dict[int, LogRange]) -> None:
    assert backfill(BACKFILL_CONFIG, EMPTY, safe_time, depth, {}) == wanted


def test_logs_end_where_all_chains_have_their_block_of_the_start() -> None:
    """[VR10]: one second before the first block of which it is known with which L1 block it became safe."""
    assert start_time(BACKFILL_CONFIG, {1: 40, 2: 20}) == 1041
    assert start_time(BACKFILL_CONFIG, {1: 41, 2: 20}) == 1041
    assert start_time(BACKFILL_CONFIG, {1: 60, 2: 20}) == 1060


@pytest.mark.parametrize(
    ("finalized", "chain_id"), [({1: 150, 2: 75}, None), ({1: 151, 2: 75}, 1), ({1: 150, 2: 76}, 2)]
)
def test_no_chain_has_finalized_more_than_was_verified(finalized: dict[int, int], chain_id: int | None) -> None:
    """[VR14]: but for one that joins the set, and before the first round."""
    wait = outdated({1: BlockId(150, TIP.hash), 2: BlockId(75, TIP.hash)}, finalized)
    assert (None if wait is None else (wait.reason, wait.chain_id)) == (chain_id and (WaitReason.OLDER, chain_id))
    assert outdated({}, finalized) is None


def test_a_chain_that_begins_later_is_read_from_its_genesis() -> None:
    config = dependency_set(member(1), member(2, genesis_time=1050, number=7), activation=1010)
    assert backfill(config, EMPTY, 1060, 1000, {})[2] == LogRange(7, 17, NONE)
    assert backfill(config, EMPTY, 1040, 1000, {})[2] == LogRange(7, 6, NONE), "nothing yet"


@pytest.mark.parametrize(
    ("canonical", "safe_time", "depth", "wanted"),
    [
        (TIP.hash, 1200, 100, LogRange(151, 200, 150)),  # goes on
        (TIP.hash, 1140, 100, LogRange(141, 140, 140)),  # what is above the end goes
        (TIP.hash, 1200, 49, LogRange(151, 200, 150)),
        (TIP.hash, 1200, 48, LogRange(152, 200, NONE)),  # there would be a gap
        (b"\x09" * 32, 1200, 100, LogRange(100, 200, NONE)),  # the chain has another block
        (None, 1200, 100, LogRange(100, 200, NONE)),
    ],
)
def test_it_goes_on_from_what_is_stored(canonical: bytes | None, safe_time: int, depth: int, wanted: LogRange) -> None:
    result = backfill(BACKFILL_CONFIG, StoreState({1: TIP}), safe_time, depth, {1: canonical})
    assert result[1] == wanted


def test_after_the_first_round_only_new_chains_are_read() -> None:
    """[VR10]: up to the last round, whatever the safe heads are."""
    state = StoreState({1: TIP}, VerifiedRound(1150, L1, 1100))
    assert backfill(BACKFILL_CONFIG, state, 5000, 100, {1: None}) == {2: LogRange(25, 75, NONE)}
