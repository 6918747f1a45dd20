"""A stateless compute worker: runs pure tasks of derivation, l1 and blobs. When it dies, its task goes to another."""

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.derivation import tasks as derivation_tasks
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import Stage
from rollup_node.stages.l1 import tasks as l1_tasks


class ComputeStage(Stage):
    """Has no periodic task: the bus runs a task whenever there is one, derivation's first."""

    def __init__(self, config: ComputeConfig, bus: Bus) -> None:
        # The bus serves the channels in this order.
        self.worker = bus.work(
            {"work.derivation": derivation_tasks.run, "work.l1": l1_tasks.run, "work.blobs": blob_tasks.run}
        )


def build(config: ComputeConfig, bus: Bus, meter: Meter) -> ComputeStage:
    return ComputeStage(config, bus)
