"""A chain whose batches a DA server keeps, derived as a whole: what becomes of inputs that are there, that are not, and
that are challenged on L1."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.pipeline.outputs import NeedChallenges, NeedL1Block
from rollup_node.stages.derivation.reasons import l1 as reasons
from rollup_node.stages.derivation.reasons.reason import AnyKind
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.commitments import (
    CHALLENGE_TOPIC,
    ChallengeStatus,
    keccak_commitment,
)
from rollup_node.stages.protocol.types import BlobRef, ChallengeLog, Log
from tests.conformance.kit.alt_da import CONTRACT, RESOLVE, WINDOW, AltDaChain, challenge_log, with_challenges
from tests.conformance.kit.chain import FIRST_L1, GENESIS, STRANGER, blobs, calldata, forks_until
from tests.conformance.kit.planning import Planned, channel, plan, refs, singulars
from tests.conformance.kit.rollup_chain import RollupChain

FORKS = forks_until("granite")
PLAN = plan(GENESIS, 6)


def items(*blocks: Planned, name: str = "a", pieces: int = 1) -> list[bytes]:
    """Return the batcher's items with these blocks."""
    return channel(name, *singulars(blocks), pieces=pieces)


def effects(chain: RollupChain) -> list[AnyKind]:
    return chain.take_reasons(DropEffect.DROPPED, DropEffect.RESET)


def test_frames_on_l1_and_commitments_in_blobs_and_calldata_mix() -> None:
    chain = AltDaChain(FORKS)
    first, second, third = items(*PLAN, pieces=3)
    (commitment, other) = chain.commit(second, third)
    key = b"\1" * 32
    chain.blobs[key] = b"\1" + commitment.encode()
    of_a_stranger = calldata(b"\1" + other.encode(), STRANGER)
    chain.mine(inbox=[of_a_stranger, calldata(first), blobs([key]), calldata(b"\1" + other.encode())])
    assert refs(chain.run()) == refs(PLAN)
    assert chain.asked == [commitment, other]
    assert chain.l1.last.inbox[2].blobs == (BlobRef(0, key),)


def test_what_is_not_needed_is_refused() -> None:
    chain = AltDaChain(FORKS)
    (commitment,) = chain.commit(*items(*PLAN))
    chain.mine_commitments(commitment)
    chain.is_down = True
    chain.run()
    resolver, other = chain.deriver.alt_da, keccak_commitment(b"other")
    assert resolver is not None
    assert not resolver.add_input(other, b"other")
    assert not resolver.add_too_large(other, 7)
    assert not resolver.input_not_found(other)
    assert not chain.deriver.add_challenges(chain.l1[FIRST_L1])
    assert resolver.add_input(commitment, chain.inputs[commitment])
    assert refs(chain.run()) == refs(PLAN)
    assert not resolver.add_input(commitment, b"late")
    assert not chain.deriver.add_challenges(chain.l1.add())


@pytest.mark.fault("F61")
def test_a_lost_input_is_taken_from_its_resolution_on_l1() -> None:
    """The pipeline stays where it is while challenges are read ahead, and reads these L1 blocks afterwards [AD13]."""
    chain = AltDaChain(FORKS)
    first, second = items(*PLAN[:3]), items(*PLAN[3:], name="b")
    (lost,) = chain.commit(*first, stored=False)
    included = chain.mine_commitments(lost)
    assert chain.run() == []
    assert chain.last_output == NeedChallenges(included + 1)
    chain.mine_commitments(*chain.commit(*second))
    chain.mine_challenges(challenge_log(lost, included))
    assert chain.run() == []
    assert chain.last_output == NeedChallenges(included + 3)
    chain.mine_challenges(challenge_log(lost, included, ChallengeStatus.RESOLVED, first[0]))
    assert refs(chain.run()) == refs(PLAN)
    assert effects(chain) == []
    chain.mine_until(chain.head + 2 * WINDOW)
    chain.run()
    assert effects(chain) == [], "a resolved challenge does not expire"


def test_a_used_input_whose_challenge_expires_is_taken_out_again() -> None:
    chain = AltDaChain(FORKS)
    (withheld,) = chain.commit(*items(*plan(GENESIS, 2, ())))
    included = chain.mine_commitments(withheld)
    challenged = chain.mine_challenges(challenge_log(withheld, included))
    assert len(chain.run()) == 2
    chain.mine_commitments(*chain.commit(*items(*PLAN, name="b")))
    chain.mine_until(challenged + RESOLVE)
    assert chain.run() == []
    assert chain.reset_reason == reasons.ChallengeExpired(withheld.content)
    assert effects(chain)[-1] is reasons.ChallengeExpired
    assert chain.asked.count(withheld) == 1
    chain.reset(FIRST_L1, safe=0)
    assert refs(chain.run()) == refs(PLAN)
    assert effects(chain) == [reasons.CommitmentExpired]
    assert chain.asked.count(withheld) == 1


def test_a_challenge_that_expires_after_derivation_has_died_is_seen_by_its_next_life() -> None:
    """What was used stays open for both windows, which are longer here than a channel may be open [ADA14]."""
    chain = AltDaChain(forks_until("fjord"), channel_timeout=2)
    blocks = plan(GENESIS, 84)
    chain.mine_until(FIRST_L1 + 4)
    (withheld,) = chain.commit(*items(*blocks[:24]))
    included = chain.mine_commitments(withheld)
    chain.mine_until(included + WINDOW - 2)
    challenged = chain.mine_challenges(challenge_log(withheld, included))
    chain.mine_until(challenged + 2)
    chain.mine(*items(*blocks[24:], name="b"))
    assert refs(chain.run()) == refs(blocks)
    assert chain.safe.l1_origin.number - chain.config.channel_timeout > included

    base = chain.restart()
    assert base <= included
    assert chain.deriver.alt_da is not None
    state = chain.deriver.alt_da.challenges
    state.finalize(chain.head + 100)
    assert chain.run() == []
    assert state.settled in (None, included - 1)
    while chain.head + 1 < challenged + RESOLVE:
        chain.mine()
        assert (chain.run(), chain.reset_reason) == ([], None)
        assert state.settled in (None, included - 1), "its input may still be taken out"
    chain.mine()
    assert chain.run() == []
    assert chain.reset_reason == reasons.ChallengeExpired(withheld.content)
    chain.reset(FIRST_L1, safe=0)
    assert chain.run() == [], "the second channel has no parent without the first"
    assert effects(chain)[-1] is not reasons.ChallengeExpired


def test_an_ordinary_reset_forgets_the_challenges_and_reads_them_again() -> None:
    chain = AltDaChain(FORKS)
    (withheld,) = chain.commit(*items(*plan(GENESIS, 2, ())))
    included = chain.mine_commitments(withheld)
    chain.mine_until(chain.mine_challenges(challenge_log(withheld, included)) + RESOLVE)
    chain.run()
    assert chain.reset_reason == reasons.ChallengeExpired(withheld.content)
    chain.reset(FIRST_L1, safe=0)
    assert chain.run() == []
    chain.reset(FIRST_L1, safe=0)
    assert len(chain.run()) == 2, "the expired challenge is not known any more"
    assert chain.reset_reason == reasons.ChallengeExpired(withheld.content)


def test_challenges_in_the_base_of_a_reset_count() -> None:
    """The windows do not begin after it [AD12]."""
    chain = AltDaChain(FORKS)
    item = items(*plan(GENESIS, 2, ()))[0]
    (withheld,) = chain.commit(item)
    log = challenge_log(withheld, FIRST_L1)
    block = msgspec.structs.replace(chain.l1.blocks[0], inbox=(calldata(b"\1" + withheld.encode()),))
    chain.l1.blocks[0] = with_challenges(block, [log])
    chain.mine_until(FIRST_L1 + RESOLVE)
    chain.run()
    assert chain.reset_reason == reasons.ChallengeExpired(withheld.content)


def test_a_reorg_of_l1_while_challenges_are_read_ahead() -> None:
    chain = AltDaChain(FORKS)
    (lost,) = chain.commit(*items(*PLAN), stored=False)
    included = chain.mine_commitments(lost)
    chain.mine_challenges(challenge_log(lost, included))
    assert chain.run() == []
    chain.l1.blocks.pop()
    chain.l1.add(branch="b")
    chain.l1.add()
    chain.run()
    assert chain.reset_reason == reasons.ChallengesReorged(included + 2)
    chain.inputs[lost] = items(*PLAN)[0]
    chain.reset(FIRST_L1)
    assert refs(chain.run()) == refs(PLAN)
    chain.mine_until(chain.head + 2 * WINDOW)
    chain.run()
    assert chain.reset_reason is None, "the challenge was on the other chain"


def test_challenges_that_were_kept_must_be_of_the_same_l1_chain() -> None:
    chain = AltDaChain(FORKS)
    (withheld,) = chain.commit(*items(*plan(GENESIS, 2, ())))
    included = chain.mine_commitments(withheld)
    chain.mine_until(chain.mine_challenges(challenge_log(withheld, included)) + RESOLVE)
    chain.run()
    chain.l1.blocks.pop()
    chain.l1.add(branch="b")
    chain.reset(FIRST_L1, safe=0)
    chain.run()
    assert chain.reset_reason == reasons.ChallengesReorged(chain.head)


def test_an_input_that_is_too_large_is_skipped_wherever_it_comes_from() -> None:
    chain = AltDaChain(FORKS)
    large = bytes(130_673)
    resolved, fetched, declared = (keccak_commitment(large + bytes((index,))) for index in range(3))
    chain.inputs[fetched] = large + b"\1"
    included = chain.mine_commitments(resolved, fetched, declared, *chain.commit(*items(*PLAN)))
    chain.mine_challenges(challenge_log(resolved, included))
    chain.mine_challenges(challenge_log(resolved, included, ChallengeStatus.RESOLVED, large + b"\0"))
    chain.run()
    assert chain.deriver.alt_da is not None
    assert chain.deriver.alt_da.add_too_large(declared, 200_000)
    assert refs(chain.run()) == refs(PLAN)
    assert effects(chain) == [reasons.CommitmentInputTooLarge] * 3


ITEM = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=36).map(lambda rest: b"\1" + rest),
    st.binary(min_size=32, max_size=32).map(lambda digest: b"\1\0" + digest),
    st.sampled_from([b"\1\0" + keccak_commitment(data).content for data in (b"", b"\0", b"\1", b"\0" * 300)]),
)
LOGS = st.lists(
    st.builds(
        lambda topics, data, resolved: ChallengeLog(Log(CONTRACT, (CHALLENGE_TOPIC, *topics), data, 0), resolved),
        st.lists(st.binary(min_size=32, max_size=32), max_size=2),
        st.binary(max_size=200),
        st.none() | st.binary(max_size=40),
    ),
    max_size=3,
)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.lists(ITEM, max_size=4), LOGS), max_size=6))
def test_whatever_l1_contains_derivation_goes_on(blocks: list[tuple[list[bytes], list[ChallengeLog]]]) -> None:
    """Only an input that stays away holds it up, and here every input is there."""
    chain = AltDaChain(FORKS)
    for data, logs in blocks:
        block = chain.mine(*data)
        chain.l1.blocks[-1] = with_challenges(block, logs)
    for item in (b"", b"\0", b"\1", b"\0" * 300):
        chain.inputs[keccak_commitment(item)] = item
    known = set(chain.inputs)
    resolver = chain.deriver.alt_da
    assert resolver is not None
    chain.run()
    while (need := resolver.needed) is not None:
        assert need.commitment not in known
        assert resolver.add_input(need.commitment, b"\0")
        chain.run()
    chain.mine_until(chain.head + 3)
    chain.run()
    assert chain.last_output == NeedL1Block(chain.head + 1)
