"""All targets."""

from collections.abc import Mapping

from rollup_node.tools.fuzz.targets import (
    batch_data,
    beacon,
    configuration,
    connections,
    differential,
    discovery,
    engine,
    histories,
    ipc,
    l1,
    local_files,
    p2p_blocks,
    p2p_transport,
    rpc,
    services,
)
from rollup_node.tools.fuzz.targets.target import FuzzTarget

TARGETS: Mapping[str, FuzzTarget] = {
    **batch_data.TARGETS,
    **differential.TARGETS,
    **l1.TARGETS,
    **beacon.TARGETS,
    **engine.TARGETS,
    **services.TARGETS,
    **rpc.TARGETS,
    **connections.TARGETS,
    **p2p_transport.TARGETS,
    **p2p_blocks.TARGETS,
    **discovery.TARGETS,
    **configuration.TARGETS,
    **local_files.TARGETS,
    **histories.TARGETS,
    **ipc.TARGETS,
}
"""The targets by name."""
