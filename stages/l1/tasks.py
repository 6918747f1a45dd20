"""Tasks of l1 for compute workers: verify an endpoint's responses about one L1 block, and keep what rollups need of it.

A block is verified once for all rollups of the node [LHD32]."""

from collections.abc import Sequence

import msgspec

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.receipts import VerifiedLogs, verified_logs
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock, parse_block, verify_block
from rollup_node.stages.protocol.types import L1Block


class VerifyBlock(msgspec.Struct, frozen=True, array_like=True, tag="VerifyBlock"):
    """The eth_getBlockByNumber response of `number` with full transactions; `trust` skips hashes and roots."""

    number: int
    body: bytes
    trust: bool
    l1_filters: tuple[L1Filter, ...]


class VerifyReceipts(msgspec.Struct, frozen=True, array_like=True, tag="VerifyReceipts"):
    """`body` is the response to a method for all receipts of the block, or one of the same form made of several."""

    block: VerifiedBlock
    body: bytes
    l1_filters: tuple[L1Filter, ...]


class Verified(msgspec.Struct, frozen=True, array_like=True, tag="Verified"):
    """The verified block, with all that derivation needs of it, for each filter in their order."""

    blocks: tuple[L1Block, ...]

    def take(self) -> tuple[L1Block, ...]:
        """Return the blocks with one header for all."""
        first, *others = self.blocks
        return first, *(msgspec.structs.replace(block, header=first.header) for block in others)


class NeedsReceipts(msgspec.Struct, frozen=True, array_like=True, tag="NeedsReceipts"):
    """The bloom does not exclude deposits or config updates, so the receipts have to be verified as well."""

    block: VerifiedBlock


class Invalid(msgspec.Struct, frozen=True, array_like=True, tag="Invalid"):
    """The endpoint's data are wrong."""

    reason: str


Task = VerifyBlock | VerifyReceipts
Result = Verified | NeedsReceipts | Invalid


def run(task: Task) -> Result:
    """Verify; never raises for bad data."""
    try:
        if isinstance(task, VerifyBlock):
            return verified(verify_block(parse_block(task.body), task.number, task.trust, task.l1_filters))
        return verified(task.block, verified_logs(task.body, task.block, task.l1_filters))
    except InvalidDataError as error:
        return Invalid(str(error))


def verified(block: VerifiedBlock, logs: Sequence[VerifiedLogs] | None = None) -> Verified | NeedsReceipts:
    """Return the result for a verified block, and for its logs once they are verified, too."""
    if logs is None and block.needs_receipts:
        return NeedsReceipts(block)
    every = [VerifiedLogs((), (), ())] * len(block.inboxes) if logs is None else logs
    return Verified(tuple([L1Block(block.header, one, *own) for one, own in zip(block.inboxes, every, strict=True)]))
