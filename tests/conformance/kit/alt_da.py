"""A chain with Alt-DA: the batcher's items are commitments, and a DA server that has some of their inputs."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rollup_node.stages.derivation.pipeline.deriver import Deriver, Output
from rollup_node.stages.derivation.pipeline.outputs import NeedChallenges, NeedInput
from rollup_node.stages.engine.starts.start_search import challenge_lookback
from rollup_node.stages.protocol.commitments import CHALLENGE_TOPIC, ChallengeStatus, Commitment, keccak_commitment
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.types import ChallengeLog, L1Block, Log
from tests.conformance.kit.chain import L1_CHAIN, abi_words
from tests.conformance.kit.rollup_chain import RollupChain

CONTRACT = b"\xda" * 20
WINDOW, RESOLVE = 8, 5
ALT_DA = AltDaConfig(CONTRACT, "KeccakCommitment", WINDOW, RESOLVE)


def challenge_log(
    commitment: Commitment, included: int, status: int = ChallengeStatus.ACTIVE, data: bytes | None = None
) -> ChallengeLog:
    """Return the log of a challenge of a commitment of L1 block `included`, resolved by `data`."""
    encoded = commitment.encode()
    words = abi_words(64, status, len(encoded)) + encoded + bytes(-len(encoded) % 32)
    return ChallengeLog(Log(CONTRACT, (CHALLENGE_TOPIC, abi_words(included)), words, 0), data)


class AltDaChain(RollupChain):
    """`inputs` are what the DA server has; it answers not found to everything else, or nothing while it is down.

    `asked` are the commitments that it was asked for."""

    def __init__(self, forks: Mapping[str, int], commitment_type: str = "KeccakCommitment", **changes: Any) -> None:
        super().__init__(forks, alt_da=msgspec.structs.replace(ALT_DA, commitment_type=commitment_type), **changes)
        self.inputs: dict[Commitment, bytes] = {}
        self.asked: list[Commitment] = []
        self.is_down = False

    def commit(self, *items: bytes, stored: bool = True) -> list[Commitment]:
        """Return the commitments to data items, whose inputs are `stored` at the DA server."""
        commitments = [keccak_commitment(item) for item in items]
        self.inputs |= dict(zip(commitments, items, strict=True)) if stored else {}
        return commitments

    def mine_commitments(self, *commitments: Commitment) -> int:
        """Return the next L1 block, with a transaction for each commitment; its number."""
        return self.mine(*(b"\1" + commitment.encode() for commitment in commitments)).header.number

    def mine_challenges(self, *challenges: ChallengeLog) -> int:
        """Return the next L1 block, with these logs of challenges; its number."""
        self.l1.blocks[-1:] = [with_challenges(self.mine(), challenges)]
        return self.head

    def restart(self) -> int:
        """Return a new life of derivation, which starts at the safe head; the base that the engine finds for it."""
        base = self.base_at(len(self.l2) - 1, challenge_lookback(self.config))
        self.deriver = Deriver(self.config, L1_CHAIN)
        self.reset(base.base.number, base.config)
        return base.base.number

    def _handle(self, output: Output) -> bool:
        match output:
            case NeedInput(commitment=commitment):
                self.asked.append(commitment)
                assert self.deriver.alt_da is not None
                if self.is_down:
                    return False
                if commitment in self.inputs:
                    return self.deriver.alt_da.add_input(commitment, self.inputs[commitment])
                return self.deriver.alt_da.input_not_found(commitment)
            case NeedChallenges(number=number):
                return number <= self.head and self.deriver.add_challenges(self.l1[number])
        return super()._handle(output)


def with_challenges(block: L1Block, challenges: Iterable[ChallengeLog]) -> L1Block:
    """Return the block with these logs of challenges."""
    return msgspec.structs.replace(block, challenges=tuple(challenges))
