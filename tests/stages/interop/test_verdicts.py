"""What the chains are told [LB3, LB4, IV2, IV3, RA1]."""

import msgspec

from rollup_node.stages.interop.rounds import InvalidateHeads, InvalidHead, Rewind, StoreState, VerifiedRound
from rollup_node.stages.interop.verdicts import verdicts
from rollup_node.stages.messages.verification import ChainVerdict, DeniedBlock, Verdicts
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId
from tests.support.interop.values import block, dependency_set, member

CONFIG = dependency_set(member(1), member(2, block_time=2), activation=1010)
L1 = BlockId(20, b"\x14" * 32)
TIPS = {1: block(100, 1100).id, 2: block(50, 1100).id}
STATE = StoreState(TIPS, VerifiedRound(1100, L1, 1090))
DENIED = (DeniedBlock(40, b"\x28" * 32),)


def told(state: StoreState, chain_id: int) -> ChainVerdict:
    return verdicts(CONFIG, state, 9, {}, {}).chains[chain_id]


def test_after_a_round_its_heads_are_verified() -> None:
    final = {1: block(90, 1090).id}
    assert verdicts(CONFIG, STATE, 9, final, {2: DENIED}) == Verdicts(
        {1: ChainVerdict(TIPS[1], final[1], (), 9, None), 2: ChainVerdict(TIPS[2], None, DENIED, 9, None)},
        1010,
        L1,
        1100,
    )


def test_without_a_round_nothing_is_verified() -> None:
    """[LB3]: whatever logs are read already."""
    result = verdicts(CONFIG, msgspec.structs.replace(STATE, verified=None), 0, {}, {})
    assert (result.current_l1, result.timestamp) == (None, 0)
    assert [verdict.verified for verdict in result.chains.values()] == [None, None]


def test_a_chain_that_joins_is_verified_once_its_logs_are_read() -> None:
    """[VR10]"""
    assert told(msgspec.structs.replace(STATE, tips={1: TIPS[1], 2: block(49, 1098).id}), 2).verified is None
    assert told(msgspec.structs.replace(STATE, tips={1: TIPS[1]}), 2).verified is None


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
    genesis = CONFIG.chains[2].genesis.l2
    assert told(StoreState({}, pending=Rewind(1000)), 2).go_back == genesis
