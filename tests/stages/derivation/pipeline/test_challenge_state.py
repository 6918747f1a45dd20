"""The challenges of Alt-DA and the windows of its commitments [ADA5 to ADA11]."""

from typing import Any

import pytest
from eth_abi.abi import encode
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.pipeline.challenge_state import ChallengeState
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons.l1 import (
    ChallengeDataMismatch,
    ChallengeDataMissing,
    ChallengeMalformed,
    ChallengeNotTracked,
    ChallengeStatusUnknown,
)
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.commitments import (
    CHALLENGE_TOPIC,
    GENERIC,
    ChallengeStatus,
    Commitment,
    keccak_commitment,
)
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import ChallengeLog, L1Block, L1Header, Log

WINDOW, RESOLVE, LOOK_BACK = 10, 6, 30
FIRST = 100
ACTIVE, RESOLVED, EXPIRED = ChallengeStatus.ACTIVE, ChallengeStatus.RESOLVED, ChallengeStatus.EXPIRED
DATA = [b"input %d" % index for index in range(8)]
COMMITMENTS = [keccak_commitment(data) for data in DATA]


def challenge(value: int | Commitment, included: int, status: int, data: bytes | None = None) -> ChallengeLog:
    """Return the log of a challenge of a commitment, which may be given by its index."""
    commitment = COMMITMENTS[value] if isinstance(value, int) else value
    encoded = encode(["bytes", "uint8"], [commitment.encode(), status])
    return ChallengeLog(Log(b"\xda" * 20, (CHALLENGE_TOPIC, included.to_bytes(32, "big")), encoded, 5), data)


def l1_block(number: int, *challenges: ChallengeLog, branch: bytes = b"") -> L1Block:
    def key(at: int) -> bytes:
        return keccak256(b"%d" % at + branch)

    header = L1Header(key(number), number, key(number - 1), 12 * number, bytes(32), 7, None, None)
    return L1Block(header, (), (), (), challenges)


class Chain:
    """A state that reads L1 block by block: `events[n]` are those of block n, `used[n]` the commitments used there."""

    def __init__(self, *, finalized: int | None = None) -> None:
        self.log = PipelineEvents()
        self.state = ChallengeState(AltDaConfig(b"\xda" * 20, "KeccakCommitment", WINDOW, RESOLVE), LOOK_BACK, self.log)
        self.events: dict[int, list[ChallengeLog]] = {}
        self.used: dict[int, list[Commitment]] = {}
        self.state.finalize(finalized)
        self.number = FIRST - 1
        self.inputs: list[tuple[int, Commitment]] = []

    def restart(self, keep_challenges: bool) -> None:
        """Reset, and starts at the first block."""
        self.state.reset(keep_challenges)
        self.number = FIRST - 1
        self.inputs.clear()

    def read(self, last: int) -> Commitment | None:
        """Read blocks up to `last`; the first commitment whose challenge expired, which ends the reading."""
        while self.number < last:
            self.number += 1
            self.state.read_events(l1_block(self.number, *self.events.get(self.number, ())))
            expired = self.state.expire_commitments(self.number)
            if expired is not None:
                return expired
            for commitment in self.used.get(self.number, ()):
                result = self.state.challenge(commitment, self.number)
                if result is None or result.status is not EXPIRED:
                    self.state.use(commitment, self.number)
                    self.inputs.append((self.number, commitment))
        return None

    def status(self, index: int, included: int) -> ChallengeStatus | None:
        result = self.state.challenge(COMMITMENTS[index], included)
        return None if result is None else result.status

    def reasons(self) -> list[Reason]:
        result = [drop.reason for drop in self.log.drops]
        self.log.drops.clear()
        return result


def test_after_the_reset_the_commitment_is_skipped() -> None:
    chain = Chain(finalized=100_000)
    chain.used[101] = [COMMITMENTS[0]]
    chain.events = {105: [challenge(0, 101, ACTIVE)]}
    assert chain.read(200) == COMMITMENTS[0]
    chain.restart(keep_challenges=True)
    assert chain.read(101 + LOOK_BACK) is None
    assert chain.status(0, 101) is EXPIRED, "the finalized head, far ahead, does not forget it"
    chain.restart(keep_challenges=False)
    assert chain.status(0, 101) is None
    assert chain.state.challenge_origin is None


def test_challenges_are_forgotten_where_no_reset_goes_back_to() -> None:
    """Neither the block being read nor L1's finalized head alone decides [AD14]."""
    for finalized, last, is_known in (
        (111 + LOOK_BACK - 1, 300, True),
        (111 + LOOK_BACK, 300, False),
        (None, 111 + 2 * LOOK_BACK - 1, True),
        (None, 111 + 2 * LOOK_BACK, False),
    ):
        chain = Chain(finalized=finalized)
        chain.events = {105: [challenge(0, 101, ACTIVE)], 107: [challenge(0, 101, RESOLVED, DATA[0])]}
        chain.read(last)
        assert (chain.status(0, 101) is RESOLVED) is is_known
        assert (len(chain.state.challenges), len(chain.state._old)) == (0, int(is_known))


def test_without_a_finalized_head_the_state_is_bounded_and_nothing_settles_too_early() -> None:
    chain, commitments = Chain(), {number: keccak_commitment(b"%d" % number) for number in range(FIRST, FIRST + 400)}
    chain.used = {number: [commitment] for number, commitment in commitments.items()}
    for number, commitment in commitments.items():
        logs = [challenge(commitment, number, ACTIVE), challenge(commitment, number, RESOLVED, b"%d" % number)]
        chain.events[number] = logs
    chain.read(FIRST + 399)
    state = chain.state
    assert len(state.commitments) + len(state.expired) == len(state._by_key) <= 2 * LOOK_BACK + RESOLVE
    oldest, _ = state.expired[0]
    state.finalize(oldest + RESOLVE - 2)
    assert state.settled is None, "windows of commitments that are forgotten end later"
    state.finalize(oldest + RESOLVE - 1)
    assert state.settled == oldest - 1


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (challenge(0, 101, 0), ChallengeStatusUnknown(5, 0)),
        (challenge(0, 101, 3), ChallengeStatusUnknown(5, 3)),
        (challenge(0, 101, RESOLVED), ChallengeDataMissing(5)),
        (challenge(0, 101, RESOLVED, DATA[1]), ChallengeDataMismatch(5, COMMITMENTS[0].content)),
        (challenge(1, 101, RESOLVED, DATA[1]), ChallengeNotTracked(5, COMMITMENTS[1].content)),
        (challenge(0, 102, RESOLVED, DATA[0]), ChallengeNotTracked(5, COMMITMENTS[0].content)),
        (ChallengeLog(Log(b"", (CHALLENGE_TOPIC,), b"", 5), None), ChallengeMalformed(5, "0 bytes are too few")),
        (challenge(Commitment(GENERIC, bytes(9000)), 101, ACTIVE), ChallengeMalformed(5, "its commitment is generic")),
    ],
)
def test_a_bad_log_changes_nothing_and_has_a_reason(log: ChallengeLog, reason: Reason) -> None:
    chain = Chain()
    chain.events = {105: [challenge(0, 101, ACTIVE)], 106: [log, challenge(2, 101, ACTIVE)]}
    chain.read(106)
    assert chain.reasons() == [reason]
    assert (chain.status(0, 101), chain.status(2, 101)) == (ACTIVE, ACTIVE)


def test_events_are_read_once_and_ahead_of_the_block_being_read() -> None:
    chain = Chain()
    chain.used[100] = [COMMITMENTS[0]]
    chain.read(100)
    for number in range(101, 120):
        chain.state.read_events(l1_block(number, *([challenge(0, 100, ACTIVE)] if number == 105 else [])))
    assert chain.status(0, 100) is EXPIRED
    assert chain.state.is_past_challenge(100)
    assert not chain.state.is_past_challenge(109)
    # The pipeline follows: the commitment was used before, so that its input must go again.
    chain.events[105] = [challenge(1, 100, ACTIVE)]
    assert chain.read(119) == COMMITMENTS[0]
    assert chain.number == 105 + RESOLVE
    assert chain.status(1, 100) is None


def test_what_is_known_belongs_to_one_l1_chain() -> None:
    state = Chain().state
    assert not state.contradicts(l1_block(100).ref)
    state.read_events(l1_block(100))
    for number, branch, contradicts in ((99, b"b", False), (100, b"", False), (100, b"b", True), (101, b"", False)):
        assert state.contradicts(l1_block(number, branch=branch).ref) is contradicts
    assert state.contradicts(l1_block(101, branch=b"b").ref)


def test_nothing_is_settled_while_a_commitment_from_before_the_base_could_be_open() -> None:
    """The last one of them can be challenged at the end of its window, and resolved at the end of the other."""
    chain, over = Chain(finalized=1000), FIRST + WINDOW + RESOLVE
    chain.used[FIRST + 1] = [COMMITMENTS[0]]
    chain.read(over - 1)
    assert chain.state.settled is None
    chain.state.finalize(over - 1)
    chain.read(over)
    assert chain.state.settled is None, "not on L1's finalized chain"
    chain.state.finalize(over)
    assert chain.state.settled == over - WINDOW
    chain.restart(keep_challenges=True)
    assert chain.state.settled is None
    chain.read(over - 1)
    assert chain.state.settled is None, "every start has a base of its own"


def test_there_are_no_commitments_from_before_genesis() -> None:
    config = AltDaConfig(b"\xda" * 20, "KeccakCommitment", WINDOW, RESOLVE)
    state = ChallengeState(config, LOOK_BACK, PipelineEvents(), genesis=FIRST)
    state.finalize(FIRST)
    state.expire_commitments(FIRST)
    assert state.settled == FIRST - WINDOW


Playbook = st.lists(
    st.tuples(
        st.integers(FIRST, FIRST + 20),  # where the commitment is
        st.none() | st.integers(0, WINDOW - 1),  # when it is challenged
        st.none() | st.integers(0, RESOLVE),  # when the challenge is resolved
    ),
    max_size=len(DATA),
)


@settings(max_examples=60)
@given(Playbook, st.none() | st.integers(FIRST, FIRST + 90))
def test_every_start_and_every_finalized_head_lead_to_the_same_inputs(
    playbook: list[tuple[Any, ...]], finalized: int | None
) -> None:
    """A commitment is out of the chain if it is challenged and not resolved, whatever resets that takes; and nothing
    counts as settled that goes out later."""
    chain = Chain(finalized=finalized)
    expected = []
    for index, (included, challenged, resolved) in enumerate(playbook):
        chain.used.setdefault(included, []).append(COMMITMENTS[index])
        if challenged is not None:
            chain.events.setdefault(included + challenged, []).append(challenge(index, included, ACTIVE))
        if challenged is not None and resolved is not None:
            at = included + challenged + resolved
            chain.events.setdefault(at, []).append(challenge(index, included, RESOLVED, DATA[index]))
        if challenged is None or resolved is not None:
            expected.append((included, COMMITMENTS[index]))
    settled_at: dict[int, int] = {}
    for _ in range(len(playbook) + 1):
        while chain.number < FIRST + 60:
            if (expired := chain.read(chain.number + 1)) is not None:
                out = [included for included, used in chain.used.items() if expired in used]
                assert all(settled < min(out) for settled in settled_at.values())
                break
            if chain.state.settled is not None:
                settled_at[chain.number] = chain.state.settled
        else:
            break
        chain.restart(keep_challenges=True)
    assert chain.number == FIRST + 60
    assert sorted(chain.inputs, key=str) == sorted(expected, key=str)
