"""A node with the real derivation and compute processes: `python -m tests.support.deriving_node FOLDER`. Its l1 process
serves the L1 blocks in a file, its engine process takes every block of the synthetic chain and refuses all others."""

import sys
from pathlib import Path

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.io.log import Level
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.engine import (
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    EngineStatus,
    L2BlocksRequest,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.types import L1Block
from rollup_node.tools.bench import synthetic_chain

MODULE = "tests.support.deriving_node"
HONEST_TRANSACTIONS = 1 + synthetic_chain.TRANSACTIONS
"""Transactions of a block of the synthetic chain, the L1 info deposit included."""


class Job(msgspec.Struct, frozen=True):
    """What the node derives from."""

    rollup: RollupConfig
    blocks: tuple[L1Block, ...]


class NeighbourStage:
    """In the place of a process that derivation talks to."""

    periodic_tasks: tuple[PeriodicTask, ...] = ()

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def reset(self, error: Exception) -> None:
        """Nothing to reset."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Nothing to publish."""


class L1Stage(NeighbourStage):
    """Serves the blocks of the job."""

    def __init__(self, job: Job, bus: Bus) -> None:
        self._blocks = {block.header.number: block for block in job.blocks}
        self._server = bus.serve("l1.blocks", self._on_request)
        bus.dispatch("work.l1")

    def _on_request(self, peer: ProcessId, request: L1BlocksRequest) -> None:
        for number in range(request.first, request.first + request.count):
            block = self._blocks.get(number)
            if block is None:
                self._server.send(peer, L1BlockUnavailable(number, max(self._blocks), None))
                return
            self._server.send(peer, L1BlockResponse(block))


class EngineStage(NeighbourStage):
    """Takes the blocks of the synthetic chain; the number of the last one is in the file `safe`, the largest number of
    transactions of a refused block in the file `refused`."""

    def __init__(self, folder: Path, job: Job, bus: Bus) -> None:
        self._folder, self._job = folder, job
        self._head = 0
        self._server = bus.serve("engine.blocks", self._on_request)
        self._publisher = bus.publish("status.engine")
        self._publisher.set(EngineStatus(1, None, None, None, None, None, False, False))

    def _on_request(self, peer: ProcessId, message: StartRequest | AttributesReady | L2BlocksRequest) -> None:
        system, safe = self._job.rollup.genesis.system_config, synthetic_chain.l2_ref(self._head)
        if isinstance(message, StartRequest):
            base = self._job.blocks[0].ref.id
            self._server.send(peer, PipelineStart(message.reset + 1, safe, system, base, system))
        elif isinstance(message, L2BlocksRequest):
            answer = L2BlocksResponse(message.reset, message.first, message.last, (), "no such blocks")
            self._server.send(peer, answer)
        else:
            self._on_attributes(peer, message)

    def _on_attributes(self, peer: ProcessId, message: AttributesReady) -> None:
        system, outcome = self._job.rollup.genesis.system_config, AttributesOutcome.REFUSED
        if len(message.attributes.transactions) == HONEST_TRANSACTIONS:
            outcome = AttributesOutcome.ACCEPTED
            if message.parent.number == self._head:
                self._head += 1
                _write(self._folder / "safe", str(self._head))
        else:
            _write(self._folder / "refused", str(len(message.attributes.transactions)))
        safe = synthetic_chain.l2_ref(self._head)
        self._server.send(peer, AttributesResult(message.reset, message.sequence, outcome, safe, system))


class BlobsStage(NeighbourStage):
    """Has no blobs: the L1 blocks carry their data as calldata."""

    def __init__(self, bus: Bus) -> None:
        bus.dispatch("work.blobs")


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def _job(folder: str) -> Job:
    return msgspec.msgpack.decode((Path(folder) / "job").read_bytes(), type=Job)


def l1(config: str, bus: Bus, meter: Meter) -> L1Stage:
    """The l1 process."""
    return L1Stage(_job(config), bus)


def blobs(config: str, bus: Bus, meter: Meter) -> BlobsStage:
    """The blobs process."""
    return BlobsStage(bus)


def engine(config: str, bus: Bus, meter: Meter) -> EngineStage:
    """The engine process."""
    return EngineStage(Path(config), _job(config), bus)


def main(folder: str) -> int:
    """Runs the node until a signal ends it."""
    compute = "rollup_node.stages.compute.process.stage:build"
    config = DerivationConfig(_job(folder).rollup, L1_CHAINS[1])
    rows = [
        ProcessSpec("l1", f"{MODULE}:l1", folder),
        ProcessSpec("blobs", f"{MODULE}:blobs", folder),
        ProcessSpec("compute", compute, ComputeConfig(), copies=1, numbered=True),
        ProcessSpec("derivation", "rollup_node.stages.derivation.process.stage:build", config),
        ProcessSpec("engine", f"{MODULE}:engine", folder),
    ]
    settings = NodeSettings("test", LogSettings(Level.WARN), runtime_dir=Path(folder) / "run", log_output=2)
    return run_node(rows, settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
