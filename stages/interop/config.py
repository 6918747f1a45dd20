"""The dependency set that is verified, the blocks of its chains by time [VR1, VR2], and the process's configuration."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.interop_messages import MESSAGE_EXPIRY_WINDOW


class InteropConfig(msgspec.Struct, frozen=True):
    """The chains by id; `activation` is the time of Lagoon, the same on all of them; `expiry_window` in seconds."""

    chains: dict[int, RollupConfig]
    activation: int
    expiry_window: int = MESSAGE_EXPIRY_WINDOW

    @property
    def first_round(self) -> int:
        """The time of the first round, without logs of before: all chains have their genesis block [VR1]."""
        return max(self.activation, *(chain.genesis.l2_time for chain in self.chains.values()))

    def begun_at(self, timestamp: int) -> list[int]:
        """Return the chains that have their genesis block at a time, which are those of a round [VR2]."""
        return sorted(chain_id for chain_id, chain in self.chains.items() if timestamp >= chain.genesis.l2_time)

    def heights_at(self, timestamp: int) -> dict[int, int]:
        """Return the number of each chain's block at a time [VR2]; of those that have not begun, one below genesis."""
        return {
            chain_id: chain.block_number_at(timestamp)
            if timestamp >= chain.genesis.l2_time
            else chain.genesis.l2.number - 1
            for chain_id, chain in self.chains.items()
        }


class ChainEngine(msgspec.Struct, frozen=True):
    """The execution engine of a chain, of which blocks and receipts are read; `timeout` of a call in seconds."""

    url: str
    jwt_secret: bytes
    timeout: float


class InteropProcessConfig(msgspec.Struct, frozen=True):
    """What is verified, the engines of the chains, and the file of the interop database.

    `backfill_depth` are the seconds before the first round whose logs are read [VR10]."""

    dependency_set: InteropConfig
    engines: dict[int, ChainEngine]
    store_path: str
    backfill_depth: int = MESSAGE_EXPIRY_WINDOW
