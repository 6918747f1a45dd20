"""Attributes of a replay have the L1 transactions of their batch."""

from pathlib import Path

import pytest

from rollup_node.ipc.bus.in_process import in_process_buses
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.inspect.replay_derivation import build
from tests.support.chains.chain_fixture import L1_CHAIN, ChainFixture

ROLES = ("l1", "blobs", "engine", "derivation", "rpc", "compute")


@pytest.mark.parametrize("sources", [(), (b"\x07" * 32,)])
def test_attributes_have_the_transactions_of_the_batch_that_was_accepted(
    sources: tuple[bytes, ...], chain: ChainFixture, tmp_path: Path
) -> None:
    config = DerivationConfig(chain.rollup, L1_CHAIN, inline_decoding=True, ahead=0)
    buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(ROLES, 1))
    stage = build(config, buses["derivation"], Meter("derivation"))
    stage._sources.accepted = sources
    attributes = chain.attributes(chain.genesis, 100)
    stage._handle(AttributesReady(0, 0, chain.genesis, attributes, chain.l1_ref(100), True))
    (sent,) = stage._run.due(1e9)
    assert getattr(sent, "sources", None) == sources
    for bus in buses.values():
        bus.close()
