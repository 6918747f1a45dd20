"""The compute-heavy part of l1: an endpoint's answers about one L1 block, verified and cut down to what is needed."""

import msgspec

from rollup_node.stages.l1.filter import Filter, split_logs
from rollup_node.stages.l1.receipts import verified_logs
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock, result_of, verify_block
from rollup_node.stages.protocol.types import L1Block


class VerifyBlock(msgspec.Struct, frozen=True, array_like=True, tag="VerifyBlock"):
    """`body` is the whole answer to eth_getBlockByNumber with full transactions, asked for `number`."""

    number: int
    body: bytes
    trust: bool
    rules: Filter


class VerifyReceipts(msgspec.Struct, frozen=True, array_like=True, tag="VerifyReceipts"):
    """`body` is the whole answer to a receipts method, or a like object made of several answers."""

    block: VerifiedBlock
    body: bytes
    rules: Filter


class Verified(msgspec.Struct, frozen=True, array_like=True, tag="Verified"):
    """All that derivation needs of the block."""

    block: L1Block


class NeedsReceipts(msgspec.Struct, frozen=True, array_like=True, tag="NeedsReceipts"):
    """The bloom does not exclude logs that matter: the receipts are needed as well."""

    block: VerifiedBlock


class Invalid(msgspec.Struct, frozen=True, array_like=True, tag="Invalid"):
    """The endpoint's data are wrong, and why."""

    reason: str


Task = VerifyBlock | VerifyReceipts
Result = Verified | NeedsReceipts | Invalid


def run(task: Task) -> Result:
    """Verifies; never raises for bad data."""
    try:
        if isinstance(task, VerifyBlock):
            return _block(task)
        return _receipts(task)
    except InvalidDataError as error:
        return Invalid(str(error))


def _block(task: VerifyBlock) -> Result:
    block = verify_block(result_of(task.body), task.number, task.trust, task.rules)
    if block.needs_receipts:
        return NeedsReceipts(block)
    return Verified(L1Block(block.header, block.inbox, (), ()))


def _receipts(task: VerifyReceipts) -> Result:
    deposits, updates = split_logs(verified_logs(result_of(task.body), task.block, task.rules))
    return Verified(L1Block(task.block.header, task.block.inbox, deposits, updates))
