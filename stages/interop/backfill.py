"""Which blocks' logs are read before the first round, or for a chain that is new in the set [VR10]."""

from collections.abc import Mapping

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.rounds import StoreState
from rollup_node.stages.protocol.types import Hash

NONE = -1
"""The number to keep where all stored blocks are removed."""


class LogRange(msgspec.Struct, frozen=True):
    """Blocks of a chain whose logs are to be added, after stored ones above the number `keep` are removed.

    It is empty, with `last` below `first`, where nothing is to be added."""

    first: int
    last: int
    keep: int


def backfill(
    config: InteropConfig, state: StoreState, safe_time: int, depth: int, canonical: Mapping[int, Hash | None]
) -> dict[int, LogRange]:
    """Return the ranges by chain, up to the last round, or up to `safe_time`, the lowest of the chains' safe heads.

    It is asked at each start, and again where nothing is verified yet and a chain has diverged.

    `depth` is in seconds. `canonical` are the hashes that the chains have at the numbers of the tips: what is stored
    goes on from a tip that its chain still has, and begins again otherwise."""
    end = safe_time if state.verified is None else state.verified.timestamp
    if end < config.activation:
        return {}
    lowest = config.heights_at(max(end - depth, config.activation))
    result = {}
    for chain_id, last in config.heights_at(end).items():
        tip, first = state.tips.get(chain_id), max(lowest[chain_id], config.chains[chain_id].genesis.l2.number)
        if state.verified is not None and tip is not None and tip.number == last:
            continue
        if tip is not None and canonical.get(chain_id) == tip.hash and tip.number >= first - 1:
            keep = min(tip.number, last)
            result[chain_id] = LogRange(keep + 1, last, keep)
        else:
            result[chain_id] = LogRange(first, last, NONE)
    return result
