"""The four heads of the L2 chain and the moves between them that are allowed."""

import msgspec

from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload, system_config_of_payload
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.l1_info import L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.system_config import BlockConfigError
from rollup_node.stages.protocol.types import Hash, L2BlockRef


class Forkchoice(msgspec.Struct, frozen=True):
    """The forkchoice state of a forkchoice update [ENG10]."""

    head: Hash
    safe: Hash
    finalized: Hash


class Heads(msgspec.Struct, frozen=True):
    """All on one chain: finalized <= safe <= pending safe <= unsafe.

    `pending_safe` is ahead of `safe` in the middle of a span batch. Values: a move returns new heads.

    `safe` is the local safe head. With an interop supervisor `cross_safe` is behind it and is what the engine knows as
    safe, and `cross_unsafe` is behind the unsafe head [RPC39]; None is the same head as the local one."""

    unsafe: L2BlockRef
    pending_safe: L2BlockRef
    safe: L2BlockRef
    finalized: L2BlockRef
    cross_safe: L2BlockRef | None = None
    cross_unsafe: L2BlockRef | None = None

    @property
    def verified_safe(self) -> L2BlockRef:
        """The head that is safe across chains."""
        return self.cross_safe or self.safe

    def forkchoice(self) -> Forkchoice:
        """Return the forkchoice state that has these heads."""
        return Forkchoice(self.unsafe.hash, self.verified_safe.hash, self.finalized.hash)

    def with_unsafe(self, ref: L2BlockRef) -> "Heads":
        """Return the heads with another tip. Raises CriticalError when it is below the finalized block [ENG36]."""
        if ref.number < self.finalized.number:
            raise CriticalError(f"the unsafe head {ref} would be below the finalized block {self.finalized}")
        return msgspec.structs.replace(self, unsafe=ref)

    def with_derived(self, ref: L2BlockRef, concluding: bool) -> "Heads":
        """Return the heads after a derived block of this chain, which is safe when it concludes its batch."""
        moved = msgspec.structs.replace(self, pending_safe=ref, safe=ref if concluding else self.safe)
        return moved if ref.number <= self.unsafe.number else moved.with_unsafe(ref)

    def without_pending(self) -> "Heads":
        """Return the heads without the rest of a span batch: its first blocks do not become safe either [ENG34]."""
        return msgspec.structs.replace(self, pending_safe=self.safe)

    def with_finalized(self, ref: L2BlockRef) -> "Heads":
        """Return the heads with this block finalized, if it is above that one and not above the safe head [FIN7]."""
        if not self.finalized.number < ref.number <= self.verified_safe.number:
            return self
        return msgspec.structs.replace(self, finalized=ref)


class L2BlockInfo(msgspec.Struct, frozen=True):
    """A block of the engine's chain; `origin_time` in Unix seconds, `config` as the block itself carries it [SYS27]."""

    ref: L2BlockRef
    origin_time: int
    config: SystemConfig


class UnreadableBlockError(ResetError):
    """The engine's chain has a block that no rollup node builds."""


def l2_block_info(payload: ExecutionPayload, rollup: RollupConfig) -> L2BlockInfo:
    """Read a block of the engine's chain. Raises UnreadableBlockError when it is not of this rollup."""
    try:
        ref, config = l2_ref_of_payload(rollup, payload), system_config_of_payload(rollup, payload)
        if ref.number == rollup.genesis.l2.number:
            return L2BlockInfo(ref, rollup.genesis.l2_time, config)
        layout = rollup.schedule().l1_info_format(payload.timestamp)
        return L2BlockInfo(ref, l1_info_of_block(payload.transactions, layout).timestamp, config)
    except (BlockError, BlockConfigError, L1InfoError) as error:
        raise UnreadableBlockError(f"block {payload.block_number} of the engine cannot be read: {error}") from None
