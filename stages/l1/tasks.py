"""Tasks of l1 for compute workers: verify an endpoint's responses about one L1 block and keep what is needed of it."""

import msgspec

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.receipts import verified_logs
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock, parse_block, verify_block
from rollup_node.stages.protocol.types import L1Block


class VerifyBlock(msgspec.Struct, frozen=True, array_like=True, tag="VerifyBlock"):
    """The eth_getBlockByNumber response of `number` with full transactions; `trust` skips hashes and roots."""

    number: int
    body: bytes
    trust: bool
    l1_filter: L1Filter


class VerifyReceipts(msgspec.Struct, frozen=True, array_like=True, tag="VerifyReceipts"):
    """`body` is the response to a method for all receipts of the block, or one of the same form made of several."""

    block: VerifiedBlock
    body: bytes
    l1_filter: L1Filter


class Verified(msgspec.Struct, frozen=True, array_like=True, tag="Verified"):
    """The verified block, with all that derivation needs of it."""

    block: L1Block


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
            return _verify_block(task)
        return _verify_receipts(task)
    except InvalidDataError as error:
        return Invalid(str(error))


def _verify_block(task: VerifyBlock) -> Result:
    block = verify_block(parse_block(task.body), task.number, task.trust, task.l1_filter)
    if block.needs_receipts:
        return NeedsReceipts(block)
    return Verified(L1Block(block.header, block.inbox, (), ()))


def _verify_receipts(task: VerifyReceipts) -> Result:
    logs = verified_logs(task.body, task.block, task.l1_filter)
    return Verified(L1Block(task.block.header, task.block.inbox, *logs))
