"""What the rpc process is told at start."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig


class RpcConfig(msgspec.Struct, frozen=True):
    """Listening addresses (port 0: any free one), the version string that is shown, and what may be called.

    `metrics_dir` is the folder where every process writes `<process>.prom`. `p2p`: there is a p2p process."""

    addr: str
    port: int
    enable_admin: bool
    version: str
    metrics_enabled: bool
    metrics_addr: str
    metrics_port: int
    metrics_dir: str
    rollup: RollupConfig
    p2p: bool = False
