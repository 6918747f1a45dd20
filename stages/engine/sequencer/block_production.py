"""The sequencer with what it builds from: L1 origins, the system config of the tip, payload attributes.

Names the engine call that is due; only what the tip lacks comes first, in this order:

| missing                                        | what happens                                        |
|------------------------------------------------|-----------------------------------------------------|
| the L1 block that is the head's origin         | it is on its way: nothing, until it arrives; after  |
|                                                | 5 s another try each second, and a problem [SEQ8]   |
| an accepted forkchoice update with these heads | the update is sent                                  |
| an L1 origin that may be used                  | another try in 1 s, or a reset [SEQ14, SEQ16]       |
| the system config of the tip                   | its block is read from the engine                   |
"""

import msgspec

from rollup_node.stages.engine.calls.actions import RequestL1Blocks
from rollup_node.stages.engine.calls.engine_api import BlockName, EngineCall, ForkchoiceUpdate, GetBlock, show_name
from rollup_node.stages.engine.calls.heads import Heads, l2_block_info
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.sequencer.sequencer import BuildDropped, SequencedBlock, Sequencer
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.attributes import prepare_attributes
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash, L1Block, L1BlockRef, L2BlockRef

ORIGIN_SECONDS = 5.0
"""The L1 block that is the head's origin may be on its way for so long."""


class BlockProduction:
    """`tip_config` is the last tip whose system config was read, by its hash. Times are Unix seconds."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.window = L1Window()
        self.recover = config.sequencer_recover
        self.sequencer = Sequencer(config)
        self.tip_config: tuple[Hash, SystemConfig] | None = None
        self._without_origin_since: float | None = None

    def wanted_l1_blocks(self, heads: Heads) -> RequestL1Blocks | None:
        """Return the request for the L1 blocks that the next origins need and that are missing [SEQ18]."""
        current = heads.unsafe.l1_origin.number
        last = current + 1 if self._visible(current + 1) else current
        missing = [number for number in range(current, last + 1) if self.window.get(number) is None]
        return RequestL1Blocks(missing[0], last - missing[0] + 1) if missing else None

    def wait_until(self) -> float | None:
        """Return the time of the next action; None when only an event can lead to one."""
        since, due = self._without_origin_since, self.sequencer.wait_until()
        return due if since is None or due is None else max(due, since + ORIGIN_SECONDS)

    def next(self, forkchoice_due: ForkchoiceUpdate | None, now: float) -> EngineCall | None:
        """Return the call that is due now. Raises TemporaryError when no block can be built yet, and ResetError."""
        need = self.sequencer.next(now)
        if not isinstance(need, L2BlockRef):
            return need
        if self.window.get(need.l1_origin.number) is not None:
            self._without_origin_since = None
        elif self._without_origin_since is None:
            self._without_origin_since = now
        waits = self._without_origin_since is not None and now < self._without_origin_since + ORIGIN_SECONDS
        return None if waits else self._prepare(need, forkchoice_due, now)

    def _prepare(self, parent: L2BlockRef, forkchoice_due: ForkchoiceUpdate | None, now: float) -> EngineCall | None:
        if forkchoice_due is not None:
            return forkchoice_due
        origin = self.select_origin(parent)
        if self.tip_config is None or self.tip_config[0] != parent.hash:
            return GetBlock(parent.hash)
        config = self.config
        attributes = sequencer_attributes(
            config.rollup, config.l1_chain, parent, self.tip_config[1], origin, self.recover
        )
        self.sequencer.set_attributes(parent, attributes)
        call = self.sequencer.next(now)
        return None if isinstance(call, L2BlockRef) else call

    # --- origins ---------------------------------------------------------------------------------------------------

    def select_origin(self, head: L2BlockRef) -> L1Block:
        """Return the next origin [SEQ8, SEQ14 to SEQ17]. Raises TemporaryError, or InconsistentOriginError."""
        current = self.window.get(head.l1_origin.number)
        if current is None:
            raise TemporaryError(f"L1 block {head.l1_origin}, the origin of the L2 head, is not fetched yet")
        if current.header.hash != head.l1_origin.hash:
            raise InconsistentOriginError(f"L2 head {head} has L1 origin {head.l1_origin}, but L1 has {current.ref}")
        following = self.window.get(current.header.number + 1) if self._visible(current.header.number + 1) else None
        if following is not None and following.header.parent_hash != current.header.hash:
            raise InconsistentOriginError(f"L1 block {following.ref} does not follow {current.ref}")
        time = head.timestamp + self.config.rollup.block_time
        if following is not None:
            return following if time >= following.header.timestamp else current
        drift = self.config.rollup.schedule().epoch(current.header.timestamp).max_sequencer_drift
        if time - current.header.timestamp > drift:
            raise TemporaryError(
                f"the next L2 block would be {time - current.header.timestamp} s past its L1 origin {current.ref},"
                f" more than the drift of {drift} s, and L1 block {current.header.number + 1} is not visible"
            )
        if self.recover and (self.window.head is None or self._visible(current.header.number + 1)):
            raise TemporaryError(f"recover mode: L1 block {current.header.number + 1} is not fetched yet")
        return current

    def _visible(self, number: int) -> bool:
        """Return whether a block is deep enough below L1's head to be built on."""
        head = self.window.head
        return head is not None and number + self.config.sequencer_l1_confs <= head.number

    # --- answers ---------------------------------------------------------------------------------------------------

    def answer(self, call: object, answer: object, now: float) -> SequencedBlock | BuildDropped | None:
        """Take the engine's answer to the call that was due. Raises TemporaryError and ResetError as `next`."""
        if isinstance(call, GetBlock):
            self._take_tip(call.name, answer)
            return None
        event = self.sequencer.answer(call, answer, now)
        if isinstance(event, SequencedBlock):
            self.tip_config = (event.block.ref.hash, event.block.config)
        return event

    def _take_tip(self, name: BlockName, answer: object) -> None:
        if answer is None:
            raise ResetError(f"the engine has lost its head {show_name(name)}")
        if not isinstance(answer, ExecutionPayload) or answer.block_hash != name:
            raise TemporaryError("the engine's answer is not its head", Code.ENGINE_ANSWER)
        self.tip_config = (answer.block_hash, l2_block_info(answer, self.config.rollup).config)

    def on_reset(self) -> None:
        """There are no heads, and L1 may have had a reorg."""
        self.sequencer.on_reset()
        self.window.clear()
        self._without_origin_since = None


def sequencer_attributes(
    rollup: RollupConfig,
    l1_chain: L1Chain,
    parent: L2BlockRef,
    parent_config: SystemConfig,
    epoch: L1Block,
    recover: bool,
) -> PayloadAttributes:
    """Return the attributes of the block after `parent`, with the pool's transactions if they may be [SEQ19]."""
    header = epoch.header
    prepared = prepare_attributes(
        rollup, l1_chain, parent, parent_config, header, epoch.deposits, epoch.config_updates
    ).attributes
    schedule = rollup.schedule()
    drifted = prepared.timestamp > header.timestamp + schedule.epoch(header.timestamp).max_sequencer_drift
    upgrade = any(activation.sequencer_no_tx_pool for activation in schedule.activations(prepared.timestamp))
    return msgspec.structs.replace(prepared, no_tx_pool=drifted or upgrade or recover)


MAX_BLOCKS = 64


class InconsistentOriginError(ResetError):
    """The L2 head's origin is not on the L1 chain as it is now."""


class L1Window:
    """The canonical L1 blocks that came last, by number. A head that does not follow the previous one empties it."""

    def __init__(self) -> None:
        self.head: L1BlockRef | None = None
        self.blocks: dict[int, L1Block] = {}

    def note_head(self, head: L1BlockRef) -> None:
        """Note L1's head, which may have moved."""
        last, self.head = self.head, head
        if last is not None and head != last and head.parent_hash != last.hash:
            self.clear()

    def note_block(self, block: L1Block) -> None:
        """Add a canonical block; those that do not link to it are removed, and the oldest beyond MAX_BLOCKS."""
        number, header = block.header.number, block.header
        below, above = self.blocks.get(number - 1), self.blocks.get(number + 1)
        if below is not None and below.header.hash != header.parent_hash:
            self.blocks = {known: kept for known, kept in self.blocks.items() if known >= number}
        if above is not None and above.header.parent_hash != header.hash:
            self.blocks = {known: kept for known, kept in self.blocks.items() if known <= number}
        self.blocks.pop(number, None)
        self.blocks[number] = block
        while len(self.blocks) > MAX_BLOCKS:
            # Not the lowest: the L2 head may have gone back by more L1 blocks than these.
            del self.blocks[next(iter(self.blocks))]

    def clear(self) -> None:
        """Remove the blocks, since L1 may have had a reorg. The head stays."""
        self.blocks.clear()

    def get(self, number: int) -> L1Block | None:
        """Return the block of a number, None if it is not kept."""
        return self.blocks.get(number)
