"""Answers of L1 endpoints: blocks, receipts, heads, proofs, and batches of answers."""

from random import Random
from typing import Any

import orjson

from rollup_node.ipc.wire.codec import Codec
from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.io.http.json_answers import (
    answered_ids,
    decode_answer,
    decode_batch,
    failure_in,
    split_batch,
)
from rollup_node.stages.l1.tasks import Invalid, NeedsReceipts, Result, Task, VerifyBlock, VerifyReceipts, run
from rollup_node.stages.l1.verify import (
    InvalidDataError,
    VerifiedBlock,
    parse_result,
    proven_value,
    stored_value,
    verify_block_ref,
)
from rollup_node.stages.protocol.answer_limits import HEADER, SMALL
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.mpt import AccountProof
from rollup_node.tools.fuzz.targets.chain_seeds import (
    ACCOUNT_NODE,
    L1_FILTER,
    NUMBER,
    SLOT_NODE,
    STATE_ROOT,
    answer,
    l1_seed,
)
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of

TASKS, RESULTS = Codec(Task), Codec(Result)
CALLS = (("eth_getBlockByNumber", ("0x1", False)), ("eth_getBlockByNumber", ("0x2", False)))


def block(data: bytes) -> object:
    """Return a block, verified and trusted, by way of the codec as in a worker."""
    outcomes = []
    for trust in (False, True):
        result = _worked(VerifyBlock(NUMBER, data, trust, (L1_FILTER,)))
        outcomes.append(type(result).__name__)
    return outcomes


def receipts(data: bytes) -> object:
    """Receipts of the block of the seeds."""
    result = _worked(VerifyReceipts(_BLOCK, data, (L1_FILTER,)))
    return type(result).__name__


def head(data: bytes) -> object:
    """Return an answer to a poll for a head."""
    return verify_block_ref(parse_result(data, HEADER, dict[str, Any]), data[-1:] == b"\n").number == NUMBER


def proof(data: bytes) -> None:
    """Parse a proof of a storage slot, and a storage value."""
    result = parse_result(data, SMALL, str | AccountProof)
    if isinstance(result, AccountProof):
        proven_value(result, STATE_ROOT, bytes(20), bytes(32))
    else:
        stored_value(result)


def batch(data: bytes) -> object:
    """Return an answer to a batch, the ids in a message of a WebSocket, and the error of an HTTP body."""
    failure = failure_in(data)
    assert failure is None or len(failure.message) <= 500
    try:
        ids = answered_ids(data, 1000)
    except MalformedJsonError:
        ids = []
    limit = HEADER.times(2)
    result = decode_batch(split_batch(data, (1, 2), limit), CALLS, dict[str, str] | None, limit)
    return len(ids or ()), [type(item).__name__ for item in result]


def chain_id(data: bytes) -> object:
    """Return a short answer."""
    return type(decode_answer(data, "eth_chainId", str, SMALL)).__name__


def _worked(task: Task) -> Result:
    return RESULTS.decode(RESULTS.encode(run(TASKS.decode(TASKS.encode(task)))))  # type: ignore[no-any-return]


def _prepared() -> VerifiedBlock:
    result = run(VerifyBlock(NUMBER, answer(l1_seed().block), False, (L1_FILTER,)))
    assert not isinstance(result, Invalid), result.reason
    assert isinstance(result, NeedsReceipts)
    return result.block


_BLOCK = _prepared()
_PROOF = {
    "accountProof": [to_hex(ACCOUNT_NODE)],
    "storageProof": [{"key": "0x0", "value": "0x5", "proof": [to_hex(SLOT_NODE)]}],
}
_BATCH = [
    {"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "header not found", "data": {"a": 1}}},
    {"jsonrpc": "2.0", "id": 1, "result": {"number": "0x1"}},
]
_RAW = [to_hex(b"\xc0"), "0x02c0"]
FAILURES = (InvalidDataError, MalformedJsonError, RpcFailure)


def _head(chance: Random) -> bytes:
    result = {name: value for name, value in l1_seed().block.items() if name != "transactions"}
    return answer(result) + chance.choice((b"", b"\n"))


ENDPOINT = "L1 endpoint"
TARGETS = {
    "l1-block": FuzzTarget(ENDPOINT, block, one_of([answer(l1_seed().block)]), (), JSON_TOKENS),
    "l1-receipts": FuzzTarget(ENDPOINT, receipts, one_of([answer(l1_seed().receipts), answer(_RAW)]), (), JSON_TOKENS),
    "l1-head": FuzzTarget(ENDPOINT, head, _head, (InvalidDataError,), JSON_TOKENS),
    "l1-proof": FuzzTarget(ENDPOINT, proof, one_of([answer(_PROOF), answer("0x05")]), (InvalidDataError,), JSON_TOKENS),
    "json-rpc-batch": FuzzTarget(ENDPOINT, batch, one_of([orjson.dumps(_BATCH)]), FAILURES, JSON_TOKENS),
    "json-rpc-answer": FuzzTarget(
        ENDPOINT, chain_id, one_of([answer("0x1"), orjson.dumps(_BATCH[0])]), FAILURES, JSON_TOKENS
    ),
}
"""The targets by name."""
