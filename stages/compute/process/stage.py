"""A stateless worker: pure tasks of derivation, l1 and blobs, derivation's first. Whatever it was doing when it dies is
given to another."""

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.derivation import tasks as derivation_tasks
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.l1 import tasks as l1_tasks


class ComputeStage:
    """Has no activities of its own: the bus runs a task whenever there is one."""

    def __init__(self, config: ComputeConfig, bus: Bus) -> None:
        self.periodic_tasks: tuple[PeriodicTask, ...] = ()
        self._kzg = config.kzg
        self.worker = bus.work(
            {
                "work.derivation": derivation_tasks.run,
                "work.l1": l1_tasks.run,
                "work.blobs": blob_tasks.run,
            }
        )

    async def start(self) -> None:
        """Loads what the first task of a kind would otherwise wait for."""
        if self._kzg:
            blob_tasks.prepare()

    async def close(self) -> None:
        """Has nothing to close."""

    def reset(self, error: Exception) -> None:
        """Has no state."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Has no status channel: a worker that cannot work is replaced."""


def build(config: ComputeConfig, bus: Bus, meter: Meter) -> ComputeStage:
    """The stage for the runtime."""
    return ComputeStage(config, bus)
