"""The real rpc process under the real supervisor, among processes that publish their states and answer no requests:
`python -m tests.support.rpc.node FOLDER SETTINGS`. SETTINGS is a JSON object with fields of RpcConfig; `descriptors` in
it is the limit of file descriptors. The log goes to standard output."""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec, node_processes
from rollup_node.node.system.runtime_dir import METRICS
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import Stage
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from tests.support.rpc.harness import L1, L2, ROLLUP

STATES = {
    "l1": L1Heads(L1, L1, L1),
    "blobs": None,
    "derivation": DerivationStatus(1, L1, True),
    "engine": EngineStatus(1, L2, L2, L2, L2, L2, True, True),
}


class NeighbourStage(Stage):
    """A process that publishes one state for good."""

    def __init__(self, role: str, bus: Bus) -> None:
        status = bus.publish(f"status.{role}")
        for message in (STATES[role], Health(())):
            if message is not None:
                status.set(message)


def build(config: str, bus: Bus, meter: Meter) -> NeighbourStage:
    """Return the stage of a role."""
    return NeighbourStage(config, bus)


def rpc_row(folder: Path, rollup: RollupConfig, **fields: Any) -> ProcessSpec:
    """Return the rpc process on free ports of loopback, with other `fields` of its configuration than the usual
    ones."""
    config = RpcConfig(
        addr="127.0.0.1",
        enable_admin=True,
        version="v0.0.0-dev",
        metrics_enabled=True,
        metrics_addr="127.0.0.1",
        metrics_dir=str(folder / METRICS),
        rollup=rollup,
    )
    (spec,) = node_processes(
        {"": {"rpc": RpcProcessConfig({"": msgspec.structs.replace(config, **fields)})}}, workers=1
    )
    return spec


def main(folder: str, settings: str) -> int:
    """Run the node until it is stopped."""
    fields = json.loads(settings)
    if "descriptors" in fields:
        limit = fields.pop("descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    neighbours = [ProcessSpec(role, "tests.support.rpc.node:build", role) for role in STATES]
    rpc = rpc_row(Path(folder), ROLLUP, **fields)
    return run_node([*neighbours, rpc], NodeSettings("v0.0.0-dev", LogSettings(Level.INFO), Path(folder)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
