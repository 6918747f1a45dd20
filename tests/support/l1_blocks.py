"""L1 blocks as endpoints return them, verified by way of the text of a response."""

from collections.abc import Callable
from typing import Any

import orjson

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import NeedsReceipts, Verified, VerifyBlock, VerifyReceipts, run
from rollup_node.stages.l1.verify import VerifiedBlock, parse_block, verify_block
from rollup_node.stages.protocol.types import Hash, L1Block


def answer(result: Any) -> bytes:
    """Return the response with a result."""
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result})


def verify_json(block: Any, number: int, trust: bool, l1_filter: L1Filter) -> VerifiedBlock:
    """As `verify_block`, of the JSON value of a block."""
    return verify_block(parse_block(answer(block)), number, trust, (l1_filter,))


def sent_block(
    block: Any, number: int, trust: bool, l1_filter: L1Filter, receipts_of: Callable[[Hash], Any]
) -> L1Block:
    """Return the block as the l1 process sends it, verified with its receipts, in JSON by its hash, if need be."""
    result = run(VerifyBlock(number, answer(block), trust, (l1_filter,)))
    if isinstance(result, NeedsReceipts):
        receipts = receipts_of(result.block.header.hash)
        result = run(VerifyReceipts(result.block, answer(receipts), (l1_filter,)))
    assert isinstance(result, Verified), result
    return result.blocks[0]
