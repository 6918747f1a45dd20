"""What the supervisor is told besides the rows."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from rollup_node.ipc.bus.channels import Channel
from rollup_node.node.supervisor.watchdog import Limits
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.stages.topology import CHANNELS

Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class NodeSettings:
    """How a node is run. `check` runs once, in a process of its own, before the rows: it ends the start by raising
    SetupError. `runtime_dir` None means a new private directory. Log lines go to the descriptor `log_output`."""

    version: str
    log: LogSettings = field(default_factory=LogSettings)
    runtime_dir: Path | None = None
    check: Check | None = None
    channels: tuple[Channel, ...] = CHANNELS
    limits: Limits = field(default_factory=Limits)
    log_output: int = 1
