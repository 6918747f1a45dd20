"""Alt-DA challenges on L1, their resolved inputs, and commitments in their windows [ADA5 to ADA11].

Two L1 blocks are read apart: `challenge_origin`, up to which the events of challenges are known, runs ahead of the
block being read while an input is missing; commitments expire by the block being read."""

from collections import deque
from dataclasses import dataclass

from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.derivation.reasons import l1 as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol import commitments
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.types import ChallengeLog, L1Block, L1BlockRef

Key = tuple[int, commitments.Commitment]
"""A commitment and before it the number of its L1 block."""


@dataclass
class Challenge:
    """The challenge of a commitment of L1 block `included`.

    Windows end at a block number, which is the first at which they are over; `data` resolved it."""

    commitment: commitments.Commitment
    included: int
    resolve_window_end: int
    status: commitments.ChallengeStatus = commitments.ChallengeStatus.ACTIVE
    data: bytes | None = None


class ChallengeState:
    """`challenges` and used `commitments` are those whose windows are open, in the order of L1.

    `expired` holds commitments until L1's finalized head passes the end of their windows. `counts` are the challenges
    seen, by their status. Challenges are known for `look_back` L1 blocks after the end of their windows: as far as a
    reset may go back. No commitment is older than the L1 block `genesis`. The windows of all commitments that are not
    held are over at L1 block `complete_from`."""

    def __init__(self, config: AltDaConfig, look_back: int, events: PipelineEvents, genesis: int = 0) -> None:
        self._config, self._look_back, self._events, self._genesis = config, look_back, events, genesis
        self.challenge_origin: L1BlockRef | None = None
        self.challenges: deque[Challenge] = deque()
        self.commitments: deque[Key] = deque()
        self.expired: deque[Key] = deque()
        self.counts = dict.fromkeys(commitments.ChallengeStatus, 0)
        self._by_key: dict[Key, Challenge] = {}
        self._old: deque[Challenge] = deque()
        self._origin: int | None = None
        self._finalized: int | None = None
        self.complete_from = 0

    def reset(self, keep_challenges: bool) -> None:
        """Forget the commitments, and the challenges as well unless an expired one causes the reset [RS3]."""
        self.commitments.clear()
        self.expired.clear()
        self._origin = None
        if not keep_challenges:
            self.challenge_origin = None
            self.challenges.clear()
            self._old.clear()
            self._by_key.clear()

    def contradicts(self, block: L1BlockRef) -> bool:
        """Whether the challenges that are known were read on another L1 chain than that of this block."""
        known = self.challenge_origin
        if known is None or block.number > known.number + 1:
            return False
        if block.number == known.number + 1:
            return block.parent_hash != known.hash
        return block.number == known.number and block.hash != known.hash

    def read_events(self, block: L1Block) -> None:
        """Take the events of a block after the known ones, then let challenges expire [ADA9]."""
        number = block.header.number
        if self.challenge_origin is not None and number <= self.challenge_origin.number:
            return
        reading, self._events.origin = self._events.origin, block.ref
        for log in block.challenges:
            reason = self._read_event(log, number)
            if reason is not None:
                self._events.drop(DropEffect.DROPPED, reason)
        self._events.origin = reading
        while self.challenges and self.challenges[0].resolve_window_end <= number:
            challenge = self.challenges.popleft()
            self._old.append(challenge)
            if challenge.status is commitments.ChallengeStatus.ACTIVE:
                self._set_status(challenge, commitments.ChallengeStatus.EXPIRED)
        self.challenge_origin = block.ref

    def expire_commitments(self, number: int) -> commitments.Commitment | None:
        """Let the commitments expire whose windows are over at the L1 block being read.

        One whose challenge was not resolved, whose input must be taken out of the chain again [AD1, ADA9]."""
        unresolved: commitments.Commitment | None = None
        if self._origin is None:
            windows = self._config.challenge_window + self._config.resolve_window
            self.complete_from = number + windows if number > self._genesis else 0
        self._origin = number
        while self.commitments and self._window_end(self.commitments[0]) <= number:
            used = self.commitments.popleft()
            self.expired.append(used)
            challenge = self._by_key.get(used)
            if challenge is not None and challenge.status is not commitments.ChallengeStatus.RESOLVED:
                unresolved = used[1]
        if unresolved is None:
            self._prune()
        return unresolved

    def use(self, commitment: commitments.Commitment, included: int) -> None:
        """Record that the input of a commitment of the L1 block being read is used."""
        self.commitments.append((included, commitment))

    def finalize(self, finalized: int | None) -> None:
        """L1's finalized head is at this number."""
        self._finalized = finalized
        self._prune()

    def challenge(self, commitment: commitments.Commitment, included: int) -> Challenge | None:
        """Return the latest challenge of a commitment of an L1 block."""
        return self._by_key.get((included, commitment))

    def challenge_window_end(self, included: int) -> int:
        """Return the L1 block from which on a commitment of block `included` cannot be challenged [ADA8]."""
        return included + self._config.challenge_window

    @property
    def next_number(self) -> int:
        """The L1 block whose events are read next."""
        return 0 if self.challenge_origin is None else self.challenge_origin.number + 1

    def is_past_challenge(self, included: int) -> bool:
        """Whether the events are known up to after the challenge window of a commitment of L1 block `included`."""
        origin = self.challenge_origin
        return origin is not None and origin.number > self.challenge_window_end(included)

    @property
    def settled(self) -> int | None:
        """The L1 block up to which no used commitment can be taken out of the chain any more.

        None while one from before the base, which is not known here, could be [ADA11]."""
        if self._finalized is None or self._origin is None:
            return None
        # Events are known, and final, up to the lower of the two.
        known = min(self._finalized, self._origin)
        if known < self.complete_from:
            return None
        waiting = self.expired or self.commitments
        return min(self._finalized, waiting[0][0] - 1) if waiting else max(0, known - self._config.challenge_window)

    def _read_event(self, challenge_log: ChallengeLog, number: int) -> Reason | None:
        """Take an event, whose challenge replaces an earlier one of the same commitment; why it is dropped."""
        index, status = challenge_log.log.index, commitments.ChallengeStatus
        try:
            event = commitments.decode_event(challenge_log.log)
        except commitments.ChallengeError as error:
            return reasons.ChallengeMalformed(index, str(error))
        if event.commitment.kind != commitments.KECCAK:
            return reasons.ChallengeMalformed(index, "its commitment is generic")
        if event.status == status.RESOLVED:
            return self._resolve(event, challenge_log)
        if event.status != status.ACTIVE:
            return reasons.ChallengeStatusUnknown(index, event.status)
        challenge = Challenge(event.commitment, event.block_number, number + self._config.resolve_window)
        self.challenges.append(challenge)
        self._by_key[event.block_number, event.commitment] = challenge
        self.counts[status.ACTIVE] += 1
        return None

    def _resolve(self, event: commitments.ChallengeEvent, challenge_log: ChallengeLog) -> Reason | None:
        index, data = challenge_log.log.index, challenge_log.resolve_data
        if data is None:
            return reasons.ChallengeDataMissing(index)
        if not event.commitment.matches(data):
            return reasons.ChallengeDataMismatch(index, event.commitment.content)
        challenge = self.challenge(event.commitment, event.block_number)
        if challenge is None:
            return reasons.ChallengeNotTracked(index, event.commitment.content)
        challenge.data = data
        self._set_status(challenge, commitments.ChallengeStatus.RESOLVED)
        return None

    def _set_status(self, challenge: Challenge, status: commitments.ChallengeStatus) -> None:
        challenge.status = status
        self.counts[status] += 1

    def _window_end(self, used: Key) -> int:
        challenge = self._by_key.get(used)
        return self.challenge_window_end(used[0]) if challenge is None else challenge.resolve_window_end

    def _prune(self) -> None:
        """Forget what is over on L1's finalized chain, commitments first, as their windows depend on challenges.

        The finalized head may be far ahead of the block being read, whose reset still needs the challenges. While
        there is none, what is over twice as deep as a reset goes back is forgotten, and not settled before the head
        is there."""
        if self._origin is None:
            return
        over = self._origin - 2 * self._look_back
        if self._finalized is not None:
            over = min(self._finalized, self._origin) - self._look_back
        final = over if self._finalized is None else self._finalized
        while self.expired and (end := self._window_end(self.expired[0])) <= final:
            self.expired.popleft()
            self.complete_from = max(self.complete_from, end)
        while self._old and self._old[0].resolve_window_end <= over:
            challenge = self._old.popleft()
            key = challenge.included, challenge.commitment
            if self._by_key.get(key) is challenge:
                del self._by_key[key]
