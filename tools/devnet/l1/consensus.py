"""The forks of the embedded L1's beacon chain, which activate with those of its execution layer."""

from collections.abc import Mapping

import msgspec

from rollup_node.tools.devnet.evm.state_transition.forks import L1Schedule


class ConsensusRules(msgspec.Struct, frozen=True):
    """The rules of a consensus fork for beacon blocks; `name` as the Beacon API has it. With `has_bids` a block has the
    bid for its payload in the place of payload and commitments (EIP-7732)."""

    name: str
    has_bids: bool = False


CONSENSUS_FORKS: Mapping[str, ConsensusRules] = {
    "shanghai": ConsensusRules("capella"),
    "cancun": ConsensusRules("deneb"),
    "prague": ConsensusRules("electra"),
    "osaka": ConsensusRules("fulu"),
    "amsterdam": ConsensusRules("gloas", has_bids=True),
}
"""By the fork of the execution layer."""


def consensus_rules(config: Mapping[str, object]) -> L1Schedule[ConsensusRules]:
    """The rules of beacon blocks of an L1 chain by the time of their slot, from its genesis `config`."""
    return L1Schedule(config, ConsensusRules("bellatrix"), CONSENSUS_FORKS)
