"""Statuses of a node for tests."""

from rollup_node.stages.rpc.status import node_status

UNKNOWN = node_status.NodeStatus(
    version="v1",
    time=0.0,
    uptime_s=None,
    chain=node_status.ChainStatus(None, 1, 10, 2, "bedrock", None),
    state=node_status.State.STARTING,
    state_age_s=0.0,
    sentence="starting",
    ready=False,
    reasons=[],
    heads=node_status.HeadsStatus(None, None, None),
    l1=node_status.L1Status(None, None, None, None, None, None),
    progress=node_status.DerivationProgress(None, None, None, None, None),
    sequencing_window=None,
    sequencer=None,
    peers=None,
    drops_1h=None,
    problems=[],
    processes=None,
)
"""A node of which nothing is known yet."""
