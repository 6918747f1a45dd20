"""Gossipsub parameters [GSP7], and the options that change them."""

import pytest

from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.gossipsub.params import MAX_RPC_BYTES, GossipParams, gossip_params
from tests.support.p2p.blocks import chain_config


def test_parameters_of_op_node() -> None:
    params = GossipParams()
    assert (params.d, params.d_lo, params.d_hi, params.d_lazy, params.d_score, params.d_out) == (8, 6, 12, 6, 4, 2)
    assert (params.heartbeat_interval, params.seen_ttl) == (0.5, 130 * params.heartbeat_interval)
    assert (params.history_length, params.history_gossip, params.outbound_queue_size) == (12, 3, 256)
    assert (params.prune_backoff, params.graft_flood_threshold) == (60.0, 10.0)
    assert (params.max_ihave_length, params.max_ihave_messages, params.iwant_followup_time) == (5000, 10, 3.0)
    assert (params.idontwant_message_threshold, params.max_idontwant_messages, params.gossip_retransmission) == (
        1024,
        1000,
        3,
    )
    assert MAX_RPC_BYTES == 10 * 1024 * 1024 and not params.flood_publish


@pytest.mark.option(
    "p2p.gossip.mesh.d",
    "p2p.gossip.mesh.lo",
    "p2p.gossip.mesh.dhi",
    "p2p.gossip.mesh.dlazy",
    "p2p.gossip.mesh.floodpublish",
)
def test_options() -> None:
    assert gossip_params(P2pConfig(chain_config())) == GossipParams()
    config = P2pConfig(chain_config(), mesh_d=4, mesh_lo=3, mesh_hi=6, mesh_lazy=2, flood_publish=True)
    assert gossip_params(config) == GossipParams(d=4, d_lo=3, d_hi=6, d_lazy=2, flood_publish=True)
