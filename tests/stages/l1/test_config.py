"""The configuration of several rollups."""

import msgspec

from rollup_node.stages.l1.config import L1Config
from tests.support.chains.plain_rollup import PLAIN_ROLLUP


def test_confirmations_are_those_of_the_chain_or_of_all() -> None:
    """[LHD9, LHD32]"""
    rollups = tuple(msgspec.structs.replace(PLAIN_ROLLUP, l2_chain_id=chain) for chain in (10, 130))
    config = L1Config(("http://127.0.0.1:1",), rollups, verifier_confs=3, chain_confs={130: 0})
    assert [config.confirmations(rollup) for rollup in rollups] == [3, 0]
