"""The l1 process's configuration."""

import msgspec

from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import Hash


class CheckpointConfig(msgspec.Struct, frozen=True):
    """The options of `l1.checkpoint*`; `root` is that of the operator, or the one that `path` was proven from.

    `path` is the file of the newest proven root, None for none. `header` goes to the first of `beacons` alone, None
    where that is not `l1.beacon`. `timeout` is in seconds."""

    root: Hash
    beacons: tuple[str, ...]
    network: BeaconNetwork
    path: str | None = None
    header: tuple[str, str] | None = None
    timeout: float = 10.0


class L1Config(msgspec.Struct, frozen=True):
    """The options of `l1` and `l1.*` and `verifier.l1-confs`. Intervals and `timeout` are in seconds.

    `rollups` are those of the node, one or more, all on this L1 [LHD32]. `poll_interval` and `epoch_poll_interval`: 0
    or less for no polling; WebSocket endpoints notify of new heads. `rate_limit`: requests a second, 0 for none.
    `cache_size`: L1 blocks, 0 for 3/2 of the longest sequencing window; `cache_bytes` bounds the same cache. `window`:
    L1 blocks fetched ahead of each derivation. `verifier_confs`: hidden from derivation; `chain_confs` has the
    exceptions by L2 chain id. `runtime_config`: read the unsafe block signers from L1 at the start and every
    `runtime_config_interval`, 0 or less for at the start alone; with `protocol_versions` the versions that L1 signals,
    too. `inbox_hashes`: inbox transactions get their hashes, for commands that show them. `checkpoint`:
    heads are proven from it, None where the endpoints are believed. `derives`: the node derives its chains."""

    endpoints: tuple[str, ...]
    rollups: tuple[RollupConfig, ...]
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
    chain_confs: dict[int, int] = {}
    window: int = 160
    timeout: float = 10.0
    runtime_config: bool = False
    runtime_config_interval: float = 600.0
    protocol_versions: bool = False
    inbox_hashes: bool = False
    checkpoint: CheckpointConfig | None = None
    derives: bool = True

    def confirmations(self, rollup: RollupConfig) -> int:
        """Return how many of the newest blocks are hidden from a rollup's derivation."""
        return self.chain_confs.get(rollup.l2_chain_id, self.verifier_confs)
