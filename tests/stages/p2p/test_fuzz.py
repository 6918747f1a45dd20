"""A thousand mutated inputs for each parser of what peers, gateways and users send, and for the files on disk: a
value or the parser's own error, nothing else."""

from pathlib import Path
from random import Random

import pytest

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.gossipsub.validation_queue import ValidationResult
from rollup_node.tools.fuzz.mutations import mutated
from rollup_node.tools.fuzz.runner import Runner
from rollup_node.tools.fuzz.targets import discovery, local_files, p2p_blocks, p2p_transport
from tests.support.p2p.blocks import CHAIN_ID, GENESIS_TIME, LAST_FORK, SIGNER, block, chain_config

COUNT, FEW = 1_000, 200
FILES = ("peerstore", "node-database", "signed-blocks")
SLOW = ("noise", "upgrade", "gossip-router", "signed-block", "discv5-node", "discv5-session", *FILES)
TARGETS = {
    **p2p_transport.TARGETS,
    **p2p_blocks.TARGETS,
    **discovery.TARGETS,
    **{name: local_files.TARGETS[name] for name in FILES},
}


@pytest.mark.fault("F51")
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs(name: str, tmp_path: Path) -> None:
    figures = Runner(name, TARGETS[name], tmp_path).run([], 20, None, FEW if name in SLOW else COUNT)
    assert figures.findings == []


@pytest.mark.parametrize("version", block_message.VERSIONS)
def test_damaged_blocks_with_a_valid_signature(version: int) -> None:
    """As a malicious sequencer could send them."""
    good, chance, signers = (
        block_message.encode_signed_part(block(version), version),
        Random(version),
        UnsafeBlockSigners(),
    )
    signers.update(SIGNER.address, 0.0)
    validator = BlockValidator(chain_config(LAST_FORK[version]), signers)
    for _ in range(FEW):
        part = mutated(chance, good)
        result = validator.validate(version, SIGNER.sign(CHAIN_ID, part) + part, GENESIS_TIME + 2, 0.0)
        assert result.result is not ValidationResult.ACCEPT or part == good
