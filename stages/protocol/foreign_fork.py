"""The end of a chain whose next block follows a fork that is not of the OP Stack [LFT1 to LFT5]."""

from datetime import UTC, datetime

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import NetworkLeftError
from rollup_node.stages.protocol.types import L2BlockRef


def utc_time(seconds: float) -> str:
    """A time in Unix seconds in the form 2026-05-28T18:00:00Z; the seconds beyond the calendar."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s"


def end_text(rollup: RollupConfig) -> str:
    """Where and why derivation ends; empty for a chain without a foreign fork."""
    fork = rollup.foreign_fork
    if fork is None:
        return ""
    return f"block {rollup.last_block} is the last that can be derived, {fork.name} began at {utc_time(fork.time)}"


def network_left(rollup: RollupConfig, safe: L2BlockRef) -> NetworkLeftError:
    """The error that ends the node at that safe head."""
    return NetworkLeftError(f"the safe head is block {safe.number}, and {end_text(rollup)}")
