"""The tasks of l1 as compute workers run them, over the codec."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest
from eth_abi.abi import encode

from rollup_node.ipc.wire.codec import Codec
from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.tasks import NeedsReceipts, Result, Task, Verified, VerifyBlock, VerifyReceipts, run
from rollup_node.stages.l1.verify import VerifiedBlock
from rollup_node.stages.protocol.commitments import CHALLENGE_TOPIC, keccak_commitment
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import receipt_from_json
from rollup_node.stages.protocol.types import L1Header, Log
from tests.conformance.kit.chain import STRANGER, batcher_update
from tests.conformance.kit.l1_endpoint import L1_FILTER as ENDPOINT_FILTER
from tests.conformance.kit.l1_endpoint import EndpointTransaction, L1Endpoint
from tests.conformance.kit.l1_transactions import signed

JsonByNumber = Callable[[int], Any]
ResponseBody = Callable[[Any], bytes]
L1_FILTER = L1Filter(1, bytes(20), bytes(20), bytes(20))


def run_over_the_codec(task: Task) -> Result:
    tasks, results = Codec(Task), Codec(Result)
    result: Result = results.decode(results.encode(run(tasks.decode(tasks.encode(task)))))
    return result


def test_a_block_is_verified_once_for_all_rollups(
    block_json: JsonByNumber, receipts_json: JsonByNumber, response_body: ResponseBody, l1_filter: L1Filter
) -> None:
    """Each gets what it would get alone, under one header [LHD32]."""
    other = L1Filter(l1_filter.chain_id, b"\x01" * 20, b"\x02" * 20, b"\x03" * 20)
    nothing = msgspec.structs.replace(l1_filter, inbox=other.inbox)
    filters = (other, l1_filter, nothing)
    first = run_over_the_codec(VerifyBlock(6_582_952, response_body(block_json(6_582_952)), False, filters))
    assert isinstance(first, NeedsReceipts), "one of them has a deposit"
    second = run_over_the_codec(VerifyReceipts(first.block, response_body(receipts_json(6_582_952)), filters))
    assert isinstance(second, Verified)
    blocks = second.take()
    assert [(len(block.inbox), len(block.deposits)) for block in blocks] == [(0, 0), (1, 1), (0, 1)]
    assert all(block.header is blocks[0].header for block in blocks)
    alone = run(VerifyBlock(6_582_952, response_body(block_json(6_582_952)), False, (l1_filter,)))
    assert isinstance(alone, NeedsReceipts)
    result = run(VerifyReceipts(alone.block, response_body(receipts_json(6_582_952)), (l1_filter,)))
    assert result == Verified((blocks[1],))


def test_memory_holds_the_objects_of_one_receipt(response_body: ResponseBody) -> None:
    """Anybody may fill an L1 block with empty logs, whose JSON is 90 times as long as what they are on the chain."""
    header = L1Header(b"\x11" * 32, 20_000_000, bytes(32), 1, bytes(32), 1, 0, bytes(32))
    hashes = tuple(bytes([index]) * 32 for index in range(8))
    receipts = [_full_of_empty_logs(header, index, item, 500) for index, item in enumerate(hashes)]
    root = ordered_root([receipt_from_json(receipt) for receipt in receipts])
    block, body = VerifiedBlock(header, ((),), root, True, hashes, 60_000_000), response_body(receipts)
    del receipts
    tracemalloc.start()
    try:
        assert isinstance(run(VerifyReceipts(block, body, (L1_FILTER,))), Verified)
        assert tracemalloc.get_traced_memory()[1] < len(body) / 2
    finally:
        tracemalloc.stop()


def _full_of_empty_logs(header: L1Header, index: int, transaction: bytes, logs: int) -> Any:
    place = {
        "blockHash": "0x" + header.hash.hex(),
        "blockNumber": hex(header.number),
        "transactionHash": "0x" + transaction.hex(),
        "transactionIndex": hex(index),
    }
    empty = {"address": "0x" + "ab" * 20, "topics": [], "data": "0x", "removed": False}
    return {
        "status": "0x1",
        "cumulativeGasUsed": hex(7_000_000 * (index + 1)),
        "gasUsed": hex(7_000_000),
        "logsBloom": "0x" + "00" * 256,
        "logs": [{**empty, **place, "logIndex": hex(index * logs + number)} for number in range(logs)],
        **place,
    }


# --- challenges of Alt-DA ------------------------------------------------------------------------------------------

CONTRACT = b"\xda" * 20
WITH_CHALLENGES = msgspec.structs.replace(ENDPOINT_FILTER, challenge_contract=CONTRACT)
COMMITMENT = keccak_commitment(b"input")


def call(data: bytes, *logs: Log, succeeded: bool = True) -> EndpointTransaction:
    """Return a transaction with this calldata that emits these logs."""
    return EndpointTransaction(signed(2, to=CONTRACT, data=data), logs, succeeded)


def event(status: int, address: bytes = CONTRACT, topic: bytes = CHALLENGE_TOPIC) -> Log:
    data = encode(["bytes", "uint8"], [COMMITMENT.encode(), status])
    return Log(address, (topic, (1000).to_bytes(32, "big")), data, 0)


def resolve_call(data: bytes) -> bytes:
    return b"\x12\x34\x56\x78" + encode(["uint256", "bytes", "bytes"], [1000, COMMITMENT.encode(), data])


@pytest.mark.parametrize("trust", [False, True])
def test_a_block_with_challenges(trust: bool) -> None:
    """Each log with the data of its own transaction, and no other log [ADA5, ADA7]."""
    endpoint = L1Endpoint()
    block = endpoint.add(
        call(b"", batcher_update(STRANGER), event(1)),
        call(resolve_call(b"first"), event(3), event(2), event(2)),
        call(resolve_call(b"unrelated")),
        call(resolve_call(b"failed"), event(2), succeeded=False),
        call(b"not a call", event(2)),
        call(resolve_call(b"second"), event(2, address=b"\xdb" * 20), event(2, topic=bytes(32)), event(2)),
    )
    result = endpoint.verified(block.number, WITH_CHALLENGES, trust)
    assert [(challenge.log.index, challenge.resolve_data) for challenge in result.challenges] == [
        (1, None),
        (2, None),
        (3, b"first"),
        (4, b"first"),
        (6, None),
        (9, b"second"),
    ]
    assert len(result.config_updates) == 1
    without = endpoint.verified(block.number, trust=trust)
    assert without == msgspec.structs.replace(result, challenges=())


def test_calldata_is_kept_only_where_a_challenge_may_be() -> None:
    endpoint = L1Endpoint()
    block = endpoint.add(call(resolve_call(b"input"), batcher_update(STRANGER)))
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": endpoint.block(block.number)})
    result = run_over_the_codec(VerifyBlock(block.number, body, False, (WITH_CHALLENGES,)))
    assert isinstance(result, NeedsReceipts)
    assert result.block.resolve_data == ()
