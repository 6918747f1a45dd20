"""What the l1 process is told at its start."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig


class L1Config(msgspec.Struct, frozen=True):
    """The options of `l1` and `l1.*` and `verifier.l1-confs`. Intervals in seconds (0 or less: no polling),
    `rate_limit` in requests a second (0: none), `window` in L1 blocks ahead of the demand; `cache_size` counts
    blocks (0: 3/2 of the sequencing window), `cache_bytes` bounds the same cache. With `runtime_config` the contracts'
    runtime config is read at the start and every `runtime_config_interval` (0 or less: only then)."""

    endpoints: tuple[str, ...]
    rollup: RollupConfig
    trust_rpc: bool = False
    rpc_kind: str = "standard"
    poll_interval: float = 12.0
    epoch_poll_interval: float = 384.0
    max_concurrency: int = 10
    max_batch: int = 20
    rate_limit: float = 0.0
    cache_size: int = 900
    cache_bytes: int = 64 << 20
    verifier_confs: int = 0
    window: int = 64
    timeout: float = 10.0
    runtime_config: bool = False
    runtime_config_interval: float = 600.0
