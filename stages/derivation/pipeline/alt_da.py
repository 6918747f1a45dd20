"""Alt-DA: resolves the commitments among the batcher's data items into their inputs [AD1 to AD8].

An input that no DA server has makes the resolver read ahead the events of challenges, L1 block by L1 block, until the
input is found or resolved on L1, its challenge expires, or nobody can challenge it any more [AD6]."""

from rollup_node.stages.derivation.pipeline.challenge_state import ChallengeState
from rollup_node.stages.derivation.pipeline.outputs import NeedChallenges, NeedInput, PipelineEvents
from rollup_node.stages.derivation.reasons import l1 as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol import commitments
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef


class AltDaResolver:
    """Between the data items of L1 and frame parsing.

    `needed` is the commitment whose input is missing; no item may be resolved before it is there."""

    def __init__(self, config: AltDaConfig, look_back: int, events: PipelineEvents, genesis: int = 0) -> None:
        self.challenges = ChallengeState(config, look_back, events, genesis)
        self.needed: NeedInput | None = None
        self._kind = commitments.COMMITMENT_TYPES[config.commitment_type]
        self._events = events
        self._input: bytes | None = None
        self._not_found = False

    def clear(self, keep_challenges: bool = False) -> None:
        """Forget all but, with `keep_challenges`, the challenges [RS3]."""
        self.challenges.reset(keep_challenges)
        self.needed = self._input = None
        self._not_found = False

    def open(self, block: L1Block) -> Reason | None:
        """Move to another L1 block before its data are read; the reason of a reset, if one is needed.

        One expired challenge voids the data since [AD1]."""
        number = block.header.number
        if self.challenges.contradicts(block.ref):
            return reasons.ChallengesReorged(number)
        self.challenges.read_events(block)
        expired = self.challenges.expire_commitments(number)
        return None if expired is None else reasons.ChallengeExpired(expired.content)

    def resolve(self, item: bytes, block: L1BlockRef) -> None:
        """Take an empty item of the L1 block being read, or a commitment, which is then `needed` [AD3 to AD6]."""
        if not item:
            self._skip(reasons.CommitmentEmpty())
            return
        try:
            commitment = commitments.decode_commitment(item[1:])
        except commitments.CommitmentError as error:
            self._skip(reasons.CommitmentMalformed(str(error)))
            return
        if commitment.kind != self._kind:
            self._skip(reasons.CommitmentTypeMismatch(commitment.kind, self._kind))
            return
        self.needed, self._not_found = NeedInput(block, commitment), False

    def next(self) -> bytes | NeedInput | NeedChallenges | None:
        """Return the input, or what is needed for it; None if no input is needed, or it is skipped.

        Raises CriticalError if neither a DA server nor L1 has it: derivation cannot continue without it [AD6]."""
        needed = self.needed
        if needed is None:
            return None
        commitment, included = needed.commitment, needed.block.number
        challenge = self.challenges.challenge(commitment, included)
        if challenge is not None and challenge.status is commitments.ChallengeStatus.EXPIRED:
            return self._skip(reasons.CommitmentExpired(commitment.content), DropEffect.DROPPED)
        if self._input is not None:
            return self._use(commitment, included, self._input)
        # Data on L1 match the commitment, so that no server has to be asked.
        if challenge is not None and challenge.data is not None:
            return self._use(commitment, included, challenge.data)
        if not self._not_found:
            return needed
        if self.is_last_chance:
            raise CriticalError(
                f"no DA server has the input of commitment {commitment} of L1 block {included}, and it could be"
                f" challenged until L1 block {self.challenges.challenge_window_end(included)} only",
                Code.ALTDA_LOST,
            )
        return NeedChallenges(self.challenges.next_number)

    @property
    def is_last_chance(self) -> bool:
        """Whether the needed commitment cannot be challenged any more: the next `input_not_found` is critical."""
        if self.needed is None:
            return False
        commitment, included = self.needed.commitment, self.needed.block.number
        return self.challenges.is_past_challenge(included) and self.challenges.challenge(commitment, included) is None

    def add_input(self, commitment: commitments.Commitment, data: bytes) -> bool:
        """Bring the input of a commitment; False if another or none is needed."""
        if self.needed is None or commitment != self.needed.commitment:
            return False
        self._input = data
        return True

    def add_too_large(self, commitment: commitments.Commitment, size: int) -> bool:
        """Return the input of the commitment that is needed is too large, of `size` bytes at least [AD7]."""
        if self.needed is None or commitment != self.needed.commitment:
            return False
        self._skip(reasons.CommitmentInputTooLarge(size, commitments.MAX_KECCAK_INPUT), DropEffect.DROPPED)
        return True

    def input_not_found(self, commitment: commitments.Commitment) -> bool:
        """No DA server has the input that is needed, at present, or at the last chance for good."""
        if self.needed is None or commitment != self.needed.commitment:
            return False
        self._not_found = True
        return True

    def add_challenges(self, block: L1Block) -> Reason | bool:
        """Bring the L1 block whose events are needed next; False if it is another or none is needed.

        The reason if a reset is needed. After the last block that can hold a challenge the DA server is asked once
        more."""
        if self.needed is None or block.header.number != self.challenges.next_number:
            return False
        if self.challenges.contradicts(block.ref):
            return reasons.ChallengesReorged(block.header.number)
        self.challenges.read_events(block)
        if self.is_last_chance:
            self._not_found = False
        return True

    def _use(self, commitment: commitments.Commitment, included: int, data: bytes) -> bytes | None:
        if commitment.kind == commitments.KECCAK and len(data) > commitments.MAX_KECCAK_INPUT:
            return self._skip(
                reasons.CommitmentInputTooLarge(len(data), commitments.MAX_KECCAK_INPUT), DropEffect.DROPPED
            )
        self.challenges.use(commitment, included)
        self.needed = self._input = None
        return data

    def _skip(self, reason: Reason, effect: DropEffect = DropEffect.IGNORED) -> bytes | None:
        self.needed = self._input = None
        self._events.drop(effect, reason)
        return None
