"""The signed blocks pass the node's own validation."""

from random import Random

import cramjam

from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.gossipsub.message_cache import ValidationResult
from rollup_node.tools.bench.signed_blocks import SIGNER, TOPIC, TOPICS, chain_config, signed_message

NOW = 1_700_000_000


def test_a_signed_block_is_accepted() -> None:
    signers = UnsafeBlockSigners()
    signers.update(SIGNER.address, 1000.0)
    validator = BlockValidator(chain_config(NOW), signers)
    content = bytes(cramjam.snappy.decompress_raw(signed_message(1, NOW, Random(1))))
    assert validator.validate(TOPICS[TOPIC], content, NOW, 1000.0).result is ValidationResult.ACCEPT


def test_blocks_are_large_and_differ() -> None:
    chance = Random(1)
    first, second = signed_message(1, NOW, chance), signed_message(2, NOW, chance)
    assert first != second
    assert min(len(first), len(second)) > 100_000
