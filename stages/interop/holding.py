"""What rounds wait for, as a problem with a code: above all which chain holds the others [VR15]."""

from collections.abc import Mapping, Sequence

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.rounds import Wait, WaitReason
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import L2BlockRef

PATIENCE_SECONDS = 10.0
"""How long a chain may have no heads, or its engine give no block."""
SETTLE_SECONDS = 60.0
"""How long a chain may take to follow L1."""
MAX_LEAD = 600
"""Seconds by which the other chains may be ahead of a chain that goes on by itself: batches do not come at one time."""

CODES = {
    WaitReason.NO_HISTORY: Code.INTEROP_HISTORY,
    WaitReason.L1_FINAL: Code.INTEROP_L1_FINAL,
    WaitReason.DIVERGED: Code.INTEROP_DIVERGED,
    WaitReason.NO_LOGS: Code.INTEROP_LOGS,
}
"""The waits that end by an operator alone, but for those before the first round."""


class ChainState(msgspec.Struct, frozen=True):
    """The local safe block of a chain, None without heads, and why it gave no answer, empty if it did."""

    local_safe: L2BlockRef | None
    error: str = ""


def problem_of_wait(
    config: InteropConfig, wait: Wait, timestamp: int, chains: Mapping[int, ChainState], seconds: float
) -> Problem | None:
    """Return what is wrong while the round of a time in seconds waits since `seconds`; None if nothing is yet."""
    subject = "L1" if wait.chain_id is None else f"chain {wait.chain_id}"
    text = f"{wait.reason.text} ({wait.detail})" if wait.detail else wait.reason.text
    if (code := CODES.get(wait.reason)) is not None:
        return Problem(code, subject, text)
    if wait.reason is WaitReason.L1_UNSETTLED:
        late = seconds >= SETTLE_SECONDS
        return Problem(Code.INTEROP_WAITS, subject, f"{text}, for {duration(seconds)}") if late else None
    return holding_chain(config, timestamp, chains, seconds)


def problem_of_going_back(chains: Sequence[int], seconds: float) -> Problem | None:
    """Return which chain the pending transition waits for, if that is no longer ordinary [IV4]."""
    return None if seconds < PATIENCE_SECONDS else _holds(chains[0], "it has not gone back yet", seconds)


def holding_chain(
    config: InteropConfig, timestamp: int, chains: Mapping[int, ChainState], seconds: float
) -> Problem | None:
    """Return the chain that holds the others in the round of a time, if that is no longer ordinary.

    One that gives no answer, or else the last of those that have not got their block of that time."""
    for chain_id, chain in sorted(chains.items()):
        if chain.local_safe is None or chain.error:
            why = chain.error or "it has no safe head"
            return None if seconds < PATIENCE_SECONDS else _holds(chain_id, why, seconds)
    heights = config.heights_at(timestamp)
    heads = {chain_id: chain.local_safe for chain_id, chain in chains.items() if chain.local_safe is not None}
    behind = [chain_id for chain_id, head in heads.items() if head.number < heights[chain_id]]
    lead = min((head.timestamp for chain_id, head in heads.items() if chain_id not in behind), default=0) - timestamp
    if not behind or lead < MAX_LEAD:
        return None
    slowest = min(behind, key=lambda chain_id: heads[chain_id].timestamp)
    return _holds(slowest, f"its safe head {heads[slowest]} is {duration(lead)} behind the others'", seconds)


def _holds(chain_id: int, why: str, seconds: float) -> Problem:
    return Problem(Code.INTEROP_WAITS, f"chain {chain_id}", f"it holds the others since {duration(seconds)}: {why}")
