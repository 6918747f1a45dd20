"""Reports of the rounds: verdicts for the chains, and for the operator the reason why no round is decided [VR15]."""

from collections.abc import Mapping

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.rounds import Decided, InvalidateHeads, StoreState, Wait, WaitReason
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.interop import ChainVerdict, Verdicts
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L2BlockRef

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
    WaitReason.OLDER: Code.INTEROP_STORE,
}
"""The waits that end by an operator alone, but for those before the first round."""


class ChainState(msgspec.Struct, frozen=True):
    """The local safe block of a chain, None without heads, and why it gave no answer, empty if it did."""

    local_safe: L2BlockRef | None
    error: str = ""


class Obstacle(msgspec.Struct, frozen=True):
    """What holds the rounds: a chain or L1, and why. It is ordinary for so many seconds of `patience`."""

    code: Code
    subject: str
    text: str
    patience: float = 0.0

    def problem(self, seconds: float) -> Problem | None:
        """Return the problem after it has lasted so long; None while it is ordinary."""
        if seconds < self.patience:
            return None
        return Problem(self.code, self.subject, f"{self.text}, for {duration(seconds)}")


def obstacle_of(config: InteropConfig, wait: Wait, timestamp: int, chains: Mapping[int, ChainState]) -> Obstacle | None:
    """Return what holds the round of a time in seconds; None where chains just have not got their blocks yet."""
    subject = "L1" if wait.chain_id is None else f"chain {wait.chain_id}"
    text = f"{wait.reason.value} ({wait.detail})" if wait.detail else wait.reason.value
    if (code := CODES.get(wait.reason)) is not None:
        return Obstacle(code, subject, text)
    if wait.reason is WaitReason.L1_UNSETTLED:
        return Obstacle(Code.INTEROP_WAITS, subject, text, SETTLE_SECONDS)
    return holding_chain(config, timestamp, chains)


def going_back(chain_id: int) -> Obstacle:
    """Return the obstacle of a pending transition: a chain that has not carried it out [IV4]."""
    return Obstacle(Code.INTEROP_WAITS, f"chain {chain_id}", "it has not gone back yet", PATIENCE_SECONDS)


def holding_chain(config: InteropConfig, timestamp: int, chains: Mapping[int, ChainState]) -> Obstacle | None:
    """Return the chain that holds the others in the round of a time: one that gives no answer, or is far behind."""
    for chain_id, chain in sorted(chains.items()):
        if chain.local_safe is None or chain.error:
            text = f"it holds the others: {chain.error or 'it has no safe head'}"
            return Obstacle(Code.INTEROP_WAITS, f"chain {chain_id}", text, PATIENCE_SECONDS)
    heights = config.heights_at(timestamp)
    heads = {chain_id: chain.local_safe for chain_id, chain in chains.items() if chain.local_safe is not None}
    behind = [chain_id for chain_id, head in heads.items() if head.number < heights[chain_id]]
    lead = min((head.timestamp for chain_id, head in heads.items() if chain_id not in behind), default=0) - timestamp
    if not behind or lead < MAX_LEAD:
        return None
    slowest = min(behind, key=lambda chain_id: heads[chain_id].timestamp)
    text = f"it holds the others: its safe head {heads[slowest]} is {duration(lead)} behind theirs"
    return Obstacle(Code.INTEROP_WAITS, f"chain {slowest}", text)


def verdicts(config: InteropConfig, state: StoreState, decided: Decided) -> Verdicts:
    """Return the verdicts for the chains [LB3, LB4, IV3]."""
    verified = state.verified
    heights = {} if verified is None else config.heights_at(verified.timestamp)
    chains = {}
    for chain_id in config.chains:
        tip = state.tips.get(chain_id)
        # A chain that has joined is not verified before its logs are read up to the last round [VR10].
        head = tip if tip is not None and tip.number == heights.get(chain_id) else None
        go_back = _go_back(config, state, chain_id)
        final, denied = decided.final.get(chain_id), decided.denied.get(chain_id, ())
        chains[chain_id] = ChainVerdict(head, final, denied, decided.transition, go_back)
    current, timestamp = (None, 0) if verified is None else (verified.l1, verified.timestamp)
    return Verdicts(chains, config.activation, current, timestamp)


def _go_back(config: InteropConfig, state: StoreState, chain_id: int) -> BlockId | None:
    """Return where a chain goes back to for the pending transition: a block of hash zero if it was never stored."""
    pending, genesis = state.pending, config.chains[chain_id].genesis.l2
    if pending is None:
        return None
    if isinstance(pending, InvalidateHeads):
        numbers = [head.block.number - 1 for head in pending.heads if head.chain_id == chain_id]
        if not numbers:
            return None
        number = numbers[0]
    else:
        number = max(config.heights_at(pending.first - 1)[chain_id], genesis.number)
    known = (block for block in (state.tips.get(chain_id), genesis) if block is not None and block.number == number)
    return next(known, BlockId(number, ZERO_HASH))
