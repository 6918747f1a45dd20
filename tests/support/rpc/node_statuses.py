"""Statuses of a node for tests."""

from rollup_node.stages.rpc.status.node_status import (
    ChainStatus,
    DerivationProgress,
    HeadsStatus,
    L1Status,
    NodeStatus,
    State,
)

UNKNOWN = NodeStatus(
    version="v1",
    time=0.0,
    uptime_s=None,
    chain=ChainStatus(None, 1, 10, 2, "bedrock", None),
    state=State.STARTING,
    state_age_s=0.0,
    sentence="starting",
    ready=False,
    reasons=[],
    heads=HeadsStatus(None, None, None),
    l1=L1Status(None, None, None, None, None, None),
    progress=DerivationProgress(None, None, None, None, None),
    sequencing_window=None,
    sequencer=None,
    peers=None,
    drops_1h=None,
    problems=[],
    processes=None,
)
"""A node of which nothing is known yet."""
