"""L1 blocks as endpoints return them, verified by way of the text of a response."""

from typing import Any

import orjson

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.verify import VerifiedBlock, parse_block, verify_block


def verify_json(block: Any, number: int, trust: bool, l1_filter: L1Filter) -> VerifiedBlock:
    """As `verify_block`, of the JSON value of a block."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": block})
    return verify_block(parse_block(body), number, trust, (l1_filter,))
