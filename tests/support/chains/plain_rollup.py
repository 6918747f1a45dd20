"""A rollup config without forks and with zero addresses, for tests that need one and look at few of its fields."""

from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, BlockId

PLAIN_ROLLUP = RollupConfig(
    genesis=Genesis(
        BlockId(0, ZERO_HASH), BlockId(0, ZERO_HASH), 0, SystemConfig(ZERO_ADDRESS, ZERO_HASH, ZERO_HASH, 1)
    ),
    block_time=2,
    max_sequencer_drift=600,
    seq_window_size=3600,
    channel_timeout=300,
    l1_chain_id=1,
    l2_chain_id=10,
    fork_times={},
    batch_inbox=ZERO_ADDRESS,
    deposit_contract=ZERO_ADDRESS,
    l1_system_config=ZERO_ADDRESS,
)
