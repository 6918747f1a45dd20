"""Rounds: what a second of all chains needs to be verified, and what is decided then [VR1 to VR14].

`next_step` is a function of what is on disk and of what was observed in this round, so it may be asked again at any
time. Its caller brings what a step asks for, writes a change and begins the next round with the state after it, or
delivers a transition to the chains until all have carried it out, and then writes Finished. A restart begins with the
state on disk. A change is on disk, with the transition that follows from it, before a chain hears of it [VR6]."""

from collections.abc import Collection, Mapping
from enum import Enum

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.message_checks import LogPlace, Stored, check_heads
from rollup_node.stages.messages.interop import DeniedBlock
from rollup_node.stages.protocol.interop_messages import BlockLogs
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Hash

NO_L1_BLOCK = BlockId(0, ZERO_HASH)
"""In place of the L1 block of a genesis block [RPC44]."""


class WaitReason(Enum):
    """Why a round is repeated: what it says of the chain or of L1 [VR3, VR4, VR10, VR11, VR13, VR14]."""

    NOT_READY = "it has no safe block of that time yet"
    NO_HISTORY = "its safe head database does not know with which L1 block the block became safe"
    L1_UNSETTLED = "an L1 block of its safe head is not on L1's chain now"
    L1_FINAL = "L1 has left a block that it had finalized"
    DIVERGED = "its block does not follow the verified one, though L1 is the same"
    NO_LOGS = "logs of it are needed that are not known"
    OLDER = "it has finalized a block after the last round: the interop database is an older copy"


class ChainBlock(msgspec.Struct, frozen=True):
    """A chain's local safe block at the time of a round, and the first L1 block with which it became safe [VR3].

    The roots are those of its header; `storage_root` is L2ToL1MessagePasser's [VR8]. The L1 block is that of a genesis
    block as long as it was not asked for."""

    logs: BlockLogs
    state_root: Hash
    storage_root: Hash
    l1: BlockId = NO_L1_BLOCK


L1Hashes = Mapping[int, Hash | None]
"""Hashes of L1's chain by number, None where it has no such block."""


class Observed(msgspec.Struct, frozen=True):
    """What a round has learnt, in the order of the steps that ask for it."""

    blocks: Mapping[int, ChainBlock | WaitReason] | None = None
    l1: L1Hashes | None = None
    stored: Stored | None = None


class InvalidHead(msgspec.Struct, frozen=True):
    """A block that must be replaced, with what its output root is made of [IV2]."""

    chain_id: int
    block: BlockId
    state_root: Hash
    storage_root: Hash
    reason: str


# --- what is written -------------------------------------------------------------------------------------------------


class Advance(msgspec.Struct, frozen=True, tag=True):
    """The second is verified; `blocks` are the heads that the chains did not have in the second before [VR9, LB7].

    `l1` is the highest L1 block that a head of this or of an earlier round was derived from [VR7, LB10]."""

    timestamp: int
    l1: BlockId
    blocks: dict[int, ChainBlock]


class InvalidateHeads(msgspec.Struct, frozen=True, tag=True):
    """Heads of that second are invalid: they are denied, and their chains derive deposits in their place [IV2, IV8]."""

    timestamp: int
    l1: BlockId
    heads: tuple[InvalidHead, ...]


class Rewind(msgspec.Struct, frozen=True, tag=True):
    """L1 has left a block that what was decided from `first` on (a time) depends on: all of that is void [RA1]."""

    first: int


class Finished(msgspec.Struct, frozen=True, tag=True):
    """All chains have carried out the pending transition."""


class AddLogs(msgspec.Struct, frozen=True, tag=True):
    """Blocks of a chain from before the first round, in a row [VR10]; those above `keep` go first."""

    chain_id: int
    blocks: tuple[BlockLogs, ...]
    keep: int


Transition = InvalidateHeads | Rewind
Change = Advance | InvalidateHeads | Rewind | Finished | AddLogs


class VerifiedRound(msgspec.Struct, frozen=True):
    """The last verified round, its L1 block, and the time of the first round with that L1 block."""

    timestamp: int
    l1: BlockId
    l1_since: int


class StoreState(msgspec.Struct, frozen=True):
    """What is on disk. `tips` are the last blocks whose logs are stored: those of the last round, if there is one.

    `decided` is the highest L1 block of the rounds that denied a head of the second after the last round [RA2]."""

    tips: dict[int, BlockId]
    verified: VerifiedRound | None = None
    decided: BlockId | None = None
    pending: Transition | None = None


class Decided(msgspec.Struct, frozen=True):
    """What the chains are sent besides the state of the rounds.

    `transition` is the number of the last one, 0 without one; it rises also over a removed file [VR6]. `denied` are all
    denied blocks by chain [IV2]; `l1_final` is the number up to which L1 blocks of rounds and denials were finalized, 0
    without one, and `final` are the heads of the last round by it [LB4]."""

    transition: int
    denied: dict[int, tuple[DeniedBlock, ...]]
    l1_final: int
    final: dict[int, BlockId]


# --- steps -----------------------------------------------------------------------------------------------------------


class AskChains(msgspec.Struct, frozen=True):
    """Needs the answer of each chain for that time in seconds."""

    timestamp: int


class AskL1(msgspec.Struct, frozen=True):
    """Needs L1Hashes of these numbers, read after the answers of the chains."""

    numbers: frozenset[int]


class AskStored(msgspec.Struct, frozen=True):
    """Needs what the database has at these places."""

    places: frozenset[LogPlace]


class Deliver(msgspec.Struct, frozen=True):
    """These chains must carry out a transition.

    By InvalidateHeads, a chain goes back to the parent of its denied block, if its engine has that block, and derives
    again [IV3, IV4]. By Rewind, a chain goes back to its last block before the time `first`, and derives again
    [RA1]."""

    transition: Transition
    chains: tuple[int, ...]


class Wait(msgspec.Struct, frozen=True):
    """The round is to be repeated after a while; the reason concerns that chain, or L1."""

    reason: WaitReason
    chain_id: int | None = None
    detail: str = ""


Step = AskChains | AskL1 | AskStored | Deliver | Wait | Advance | InvalidateHeads | Rewind


def next_time(config: InteropConfig, state: StoreState) -> int:
    """Return the time of the next round in seconds [VR1]: after the last one, or after the logs from before it."""
    if state.verified is not None:
        return state.verified.timestamp + 1
    after = [config.chains[chain_id].timestamp_of(tip.number + 1) for chain_id, tip in state.tips.items()]
    return max(config.activation, min(after)) if after else config.first_round


def next_step(config: InteropConfig, state: StoreState, observed: Observed, l1_final: int = 0) -> Step:
    """Return what is needed next, or what is decided [VR5].

    `l1_final` is the number up to which L1 blocks were finalized while L1 had those of all rounds [VR13]."""
    if state.pending is None and observed.blocks is None:
        return AskChains(next_time(config, state))
    blocks = {chain: block for chain, block in (observed.blocks or {}).items() if isinstance(block, ChainBlock)}
    depends_on = anchors(state)
    l1_blocks = {block for block in (*depends_on, *(block.l1 for block in blocks.values())) if block != NO_L1_BLOCK}
    hashes = observed.l1
    if hashes is None:
        return AskL1(frozenset(block.number for block in l1_blocks))
    left = [block for block in depends_on if block in l1_blocks and hashes.get(block.number) != block.hash]
    if left:
        return _when_l1_left(config, state, hashes, left, l1_final)
    if state.pending is not None:
        return Deliver(state.pending, _recipients(config, state.pending))
    for chain_id in config.begun_at(next_time(config, state)):
        answer = (observed.blocks or {}).get(chain_id, WaitReason.NOT_READY)
        if isinstance(answer, WaitReason):
            return Wait(answer, chain_id)
        if answer.l1 in l1_blocks and hashes.get(answer.l1.number) != answer.l1.hash:
            return Wait(WaitReason.L1_UNSETTLED, chain_id, str(answer.l1))
    return _verify(config, state, blocks, observed.stored or {})


def anchors(state: StoreState) -> list[BlockId]:
    """Return the L1 blocks that decisions depend on: the last round's, and that of the denials since [VR4]."""
    verified = None if state.verified is None else state.verified.l1
    return [block for block in (verified, state.decided) if block is not None]


def _recipients(config: InteropConfig, transition: Transition) -> tuple[int, ...]:
    if isinstance(transition, InvalidateHeads):
        return tuple(head.chain_id for head in transition.heads)
    return tuple(sorted(config.chains))


def _when_l1_left(
    config: InteropConfig, state: StoreState, hashes: L1Hashes, left: Collection[BlockId], l1_final: int
) -> Wait | Rewind:
    """Return what follows from L1 blocks that decisions depend on and that are not on its chain [VR4, VR13, RA1]."""
    block = min(left, key=lambda block: block.number)
    if hashes.get(block.number) is None:
        return Wait(WaitReason.L1_UNSETTLED, detail=str(block))
    if block.number <= l1_final:
        return Wait(WaitReason.L1_FINAL, detail=str(block))
    verified = state.verified
    return Rewind(verified.l1_since if verified is not None and verified.l1 in left else next_time(config, state))


def _verify(
    config: InteropConfig,
    state: StoreState,
    blocks: Mapping[int, ChainBlock],
    stored: Stored,
) -> Step:
    """Return the decision about the heads of a round, or what else is needed for it [VR5, VR7, VR11]."""
    timestamp = next_time(config, state)
    heights = config.heights_at(timestamp)
    heads = {chain_id: block.logs for chain_id, block in blocks.items()}
    for chain_id, logs in sorted(heads.items()):
        block, tip = logs.block, state.tips.get(chain_id)
        place = heights[chain_id], config.chains[chain_id].timestamp_of(heights[chain_id])
        if (block.number, block.timestamp) != place or (tip is not None and not _follows(logs, tip)):
            return Wait(WaitReason.DIVERGED, chain_id, f"{block} on {tip}")
        if tip is None and state.verified is not None and block.number != config.chains[chain_id].genesis.l2.number:
            return Wait(WaitReason.NO_LOGS, chain_id, f"{block} is its first in a round")
    # A head that its chain had in the second before was checked then: what its messages depend on has not changed.
    new = [chain_id for chain_id, logs in heads.items() if state.tips.get(chain_id) != logs.block.id]
    verdicts = check_heads(config, timestamp, heads, stored, new)
    if verdicts.unread:
        return AskStored(verdicts.unread)
    if verdicts.missing:
        missing = min(verdicts.missing)
        return Wait(WaitReason.NO_LOGS, missing.chain_id, f"block {missing.number}")
    l1 = max((*anchors(state), *(block.l1 for block in blocks.values())), key=lambda block: block.number)
    if verdicts.invalid:
        invalid = []
        for chain_id, verdict in sorted(verdicts.invalid.items()):
            head = blocks[chain_id]
            reason = str(verdict)
            invalid.append(InvalidHead(chain_id, head.logs.block.id, head.state_root, head.storage_root, reason))
        return InvalidateHeads(timestamp, l1, tuple(invalid))
    return Advance(timestamp, l1, {chain_id: blocks[chain_id] for chain_id in new})


def advanced(state: StoreState, change: Advance) -> StoreState:
    """Return what is on disk once a round is, too [VR6]."""
    last = state.verified
    since = last.l1_since if last is not None and last.l1 == change.l1 else change.timestamp
    tips = state.tips | {chain_id: block.logs.block.id for chain_id, block in change.blocks.items()}
    return StoreState(tips, VerifiedRound(change.timestamp, change.l1, since))


def _follows(logs: BlockLogs, tip: BlockId) -> bool:
    """Return whether a head is the last block that has been stored, or the next one on it [VR11]."""
    block = logs.block
    return block.id == tip or (block.number == tip.number + 1 and block.parent_hash == tip.hash)


def diverged(state: StoreState, canonical: Mapping[int, Hash | None], l1: L1Hashes) -> Wait | None:
    """Check once, at a start, that the chains still have what was verified [VR14].

    `canonical` are the hashes of the blocks that the chains of the rounds have at the numbers of the tips, None where a
    chain has none yet; what is stored of other chains is read again [VR10]. If L1 has left the last round's block, or a
    transition is pending, the rounds go on from there."""
    verified = state.verified
    if verified is None or state.pending is not None:
        return None
    if verified.l1 != NO_L1_BLOCK and l1.get(verified.l1.number) != verified.l1.hash:
        return None
    for chain_id, tip in sorted(state.tips.items()):
        if canonical.get(chain_id) not in (None, tip.hash):
            return Wait(WaitReason.DIVERGED, chain_id, f"{tip} was verified")
    return None


def outdated(heads: Mapping[int, BlockId], finalized: Mapping[int, int]) -> Wait | None:
    """Check once, at a start, that no chain has finalized a block after its head in the last round [VR14].

    From the first round on only verified blocks are final. A database without them lacks denials, too."""
    for chain_id, number in sorted(finalized.items()):
        if chain_id in heads and number > heads[chain_id].number:
            return Wait(WaitReason.OLDER, chain_id, f"block {number}")
    return None


NONE = -1
"""The number to keep where all stored blocks are removed."""


class LogRange(msgspec.Struct, frozen=True):
    """Blocks of a chain whose logs are to be added, after stored ones above the number `keep` are removed.

    It is empty, with `last` below `first`, where nothing is to be added."""

    first: int
    last: int
    keep: int


def start_time(config: InteropConfig, starts: Mapping[int, int]) -> int:
    """Return the last second in which a chain has the block with which it started, by chain and number [VR10].

    With which L1 block that one became safe may be unknown; of the later ones it is known."""
    return max(config.chains[chain_id].timestamp_of(number + 1) for chain_id, number in starts.items()) - 1


def backfill(
    config: InteropConfig, state: StoreState, safe_time: int, depth: int, canonical: Mapping[int, Hash | None]
) -> dict[int, LogRange]:
    """Return which logs are read before the first round, or for a chain that is new in the set, by chain [VR10].

    They end at the last round, or at `safe_time`, for which all chains have a local safe block.

    It is asked at each start, and again where a chain has diverged that is in no round yet.

    `depth` is in seconds. `canonical` are the hashes that the chains have at the numbers of the tips: what is stored
    goes on from a tip that its chain still has, and begins again otherwise."""
    end = safe_time if state.verified is None else state.verified.timestamp
    if end < config.activation:
        return {}
    lowest = config.heights_at(max(end - depth, config.activation))
    result = {}
    for chain_id, last in config.heights_at(end).items():
        tip, first = state.tips.get(chain_id), max(lowest[chain_id], config.chains[chain_id].genesis.l2.number)
        hashed = canonical.get(chain_id)
        if state.verified is not None and tip is not None and tip.number == last and hashed in (None, tip.hash):
            continue
        if tip is not None and hashed == tip.hash and tip.number >= first - 1:
            keep = min(tip.number, last)
            result[chain_id] = LogRange(keep + 1, last, keep)
        else:
            result[chain_id] = LogRange(first, last, NONE)
    return result
