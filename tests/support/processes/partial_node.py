"""Nodes under the real supervisor, most of whose processes are stubs; the log goes to standard output.

`python -m tests.support.processes.partial_node FOLDER` has the real derivation, compute and rpc processes. Its l1
process serves the L1 blocks in files as they come; its engine process takes every block of the synthetic chain and
refuses all others.

With SETTINGS behind FOLDER the rpc process alone is real, among processes that publish their states and answer no
requests. SETTINGS is a JSON object with fields of RpcConfig; `descriptors` in it is the limit of file descriptors."""

import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec, node_processes
from rollup_node.node.system.runtime_dir import METRICS
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import Stage
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import (
    AttributesAhead,
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    EngineStatus,
    L2BlocksRequest,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable, L1Heads
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.types import L1Block
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.tools.bench import synthetic_chain
from tests.support.rpc.harness import L1, L2, ROLLUP

MODULE = "tests.support.processes.partial_node"
HONEST_TRANSACTIONS = 1 + synthetic_chain.TRANSACTIONS
"""Transactions of a block of the synthetic chain, the L1 info deposit included."""


def write_rollup(folder: Path, rollup: RollupConfig) -> None:
    """Write the configuration of the chain that the node derives."""
    (folder / "rollup").write_bytes(msgspec.msgpack.encode(rollup))


def write_l1_blocks(folder: Path, blocks: Sequence[L1Block]) -> None:
    """Write the next L1 blocks, and moves the L1 head that the node sees to the last of them."""
    (folder / f"blocks-{blocks[0].header.number}").write_bytes(msgspec.msgpack.encode(blocks))
    new = folder / "l1_head.new"
    new.write_text(str(blocks[-1].header.number))
    new.rename(folder / "l1_head")


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
        if role == "blobs":
            bus.dispatch("work.blobs")
        for message in (STATES[role], Health(())):
            if message is not None:
                status.set(message)


class L1Stage(Stage):
    """Serves the blocks of the chain up to the head."""

    def __init__(self, folder: Path, bus: Bus) -> None:
        self._folder = folder
        self._blocks: dict[int, L1Block] = {}
        self._next = synthetic_chain.L1_GENESIS
        self._server = bus.serve("l1.blocks", self._on_request)
        self._publisher = bus.publish("status.l1")
        self._publisher.set(Health(()))
        self._head()
        bus.dispatch("work.l1")

    def _head(self) -> int:
        head = int((self._folder / "l1_head").read_text())
        while self._next <= head:
            new = (self._folder / f"blocks-{self._next}").read_bytes()
            for block in msgspec.msgpack.decode(new, type=tuple[L1Block, ...]):
                self._blocks[block.header.number] = block
                self._next = block.header.number + 1
        ref = self._blocks[head].ref
        self._publisher.set(L1Heads(ref, ref, ref))
        return head

    def _on_request(self, peer: ProcessId, request: L1BlocksRequest) -> None:
        head = self._head()
        for number in range(request.first, request.first + request.count):
            if number > head:
                self._server.send(peer, L1BlockUnavailable(number, head, None))
                return
            self._server.send(peer, L1BlockResponse(self._blocks[number]))


class EngineStage(Stage):
    """Takes the blocks of the synthetic chain."""

    def __init__(self, rollup: RollupConfig, bus: Bus) -> None:
        self._rollup = rollup
        self._head = 0
        self._server = bus.serve("engine.blocks", self._on_request)
        self._publisher = bus.publish("status.engine")
        self._publisher.set(Health(()))
        self._publish(1)

    def _publish(self, reset: int) -> None:
        safe = synthetic_chain.l2_ref(self._head)
        self._publisher.set(EngineStatus(reset, safe, safe, safe, safe, safe, False, False))

    def _on_request(
        self, peer: ProcessId, message: StartRequest | AttributesReady | AttributesAhead | L2BlocksRequest
    ) -> None:
        system, safe = self._rollup.genesis.system_config, synthetic_chain.l2_ref(self._head)
        if isinstance(message, StartRequest):
            self._server.send(peer, PipelineStart(message.reset + 1, safe, system, self._rollup.genesis.l1, system))
            self._publish(message.reset + 1)
        elif isinstance(message, L2BlocksRequest):
            answer = L2BlocksResponse(message.reset, message.first, message.last, (), "no such blocks")
            self._server.send(peer, answer)
        elif isinstance(message, AttributesAhead):
            for block in message.blocks:
                self._on_attributes(peer, block)
        else:
            self._on_attributes(peer, message)

    def _on_attributes(self, peer: ProcessId, message: AttributesReady) -> None:
        system, outcome = self._rollup.genesis.system_config, AttributesOutcome.REFUSED
        if len(message.attributes.transactions) == HONEST_TRANSACTIONS:
            outcome = AttributesOutcome.ACCEPTED
            if message.parent.number == self._head:
                self._head += 1
                self._publish(message.reset)
        safe = synthetic_chain.l2_ref(self._head)
        source = message.derived_from
        self._server.send(peer, AttributesResult(message.reset, message.sequence, outcome, safe, system, source))


def l1(config: str, bus: Bus, meter: Meter) -> L1Stage:
    """Return the l1 process."""
    return L1Stage(Path(config), bus)


def neighbour(config: str, bus: Bus, meter: Meter) -> NeighbourStage:
    """Return a process of a role that only publishes its state."""
    return NeighbourStage(config, bus)


def engine(config: RollupConfig, bus: Bus, meter: Meter) -> EngineStage:
    """Return the engine process."""
    return EngineStage(config, bus)


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


def derivation_rows(folder: str) -> list[ProcessSpec]:
    """Return the processes of a node that derives."""
    rollup = msgspec.msgpack.decode((Path(folder) / "rollup").read_bytes(), type=RollupConfig)
    compute = "rollup_node.stages.compute.process.stage:build"
    config = DerivationConfig(rollup, L1_CHAINS[1])
    return [
        ProcessSpec("l1", f"{MODULE}:l1", folder),
        ProcessSpec("blobs", f"{MODULE}:neighbour", "blobs"),
        ProcessSpec("compute", compute, ComputeConfig(), copies=1, numbered=True),
        ProcessSpec("derivation", "rollup_node.stages.derivation.process.stage:build", config),
        ProcessSpec("engine", f"{MODULE}:engine", rollup),
        rpc_row(Path(folder) / "run", rollup),
    ]


def rpc_rows(folder: str, settings: str) -> list[ProcessSpec]:
    """Return the processes of a node that answers."""
    fields = json.loads(settings)
    if "descriptors" in fields:
        limit = fields.pop("descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    neighbours = [ProcessSpec(role, f"{MODULE}:neighbour", role) for role in STATES]
    return [*neighbours, rpc_row(Path(folder) / "run", ROLLUP, **fields)]


def main(folder: str, *settings: str) -> int:
    """Run the node until a signal ends it."""
    rows = rpc_rows(folder, *settings) if settings else derivation_rows(folder)
    return run_node(rows, NodeSettings("v0.0.0-dev", LogSettings(Level.INFO), Path(folder) / "run"))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
