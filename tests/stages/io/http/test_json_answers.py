"""JSON-RPC answers of endpoints that may send anything."""

from typing import Any

import msgspec
import orjson
import pytest

from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.io.http.json_answers import (
    MAX_ERROR_DATA,
    Call,
    answered_ids,
    batch_limit,
    decode_answer,
    decode_batch,
    failure_in,
    split_batch,
)
from rollup_node.stages.protocol.answer_limits import BATCHED_HEADER, RECEIPTS, SMALL, AnswerLimit
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.texts import MAX_ERROR_TEXT

CALLS: list[Call] = [("eth_a", []), ("eth_b", [])]


def answer_to(body: bytes, shape: Any = Any) -> Any:
    return decode_answer(body, "eth_a", shape, SMALL)


def batch_of(body: bytes, *ids: int, shape: Any = Any) -> list[Any]:
    return decode_batch(split_batch(body, ids, SMALL), CALLS[: len(ids)], shape, SMALL)


def failure_of(error: Any) -> RpcFailure:
    with pytest.raises(RpcFailure) as caught:
        answer_to(orjson.dumps({"id": 7, "error": error}))
    return caught.value


def test_results_have_the_type_asked_for() -> None:
    """A null error beside a result is a success, in an answer and in a batch [RPC97]."""
    assert answer_to(b'{"jsonrpc":"2.0","id":7,"result":{"a":[1]},"more":{}}') == {"a": [1]}
    assert answer_to(b'{"id":7,"result":"0x1"}', str) == "0x1"
    for text in (b'{"id":7,"error":null,"result":5}', b'{"id":7,"result":5,"error":null}'):
        assert answer_to(text) == 5
    assert answer_to(b'{"id":7,"error":null,"result":null}') is None
    assert bytes(answer_to(b'{"id":null,"result":[1, 2]}', msgspec.Raw)) == b"[1, 2]"
    assert batch_of(b'[{"id":9,"result":2,"error":null},{"id":7,"error":null,"result":null}]', 7, 9) == [None, 2]
    with pytest.raises(MalformedJsonError, match=r"^the answer to eth_a is malformed: Expected `str`"):
        answer_to(b'{"id":7,"result":[]}', str)


@pytest.mark.fault("F5")
def test_only_the_answers_of_a_batch_are_told_apart_by_their_ids() -> None:
    """[LHD29]"""
    for identity in (b"[7]", b'{"id":7}', b'"7"', b"7.0", b"true", b"8", b"9" * 40, b"-7", b"[[[[]]]]"):
        element = b'{"result":1,"id":' + identity + b"}"
        assert answer_to(element) == 1
        with pytest.raises(MalformedJsonError, match="2 of 2 calls of a batch were not answered"):
            batch_of(b"[" + element + b"," + element + b"]", 7, 9)


def test_a_batch_in_any_order() -> None:
    body = b'[{"id":9,"error":{"code":-1,"message":"no"}},{"id":[],"result":3},{"id":7,"result":2}]'
    first, second = batch_of(body, 7, 9, shape=int)
    assert first == 2 and isinstance(second, RpcFailure) and second.code == -1
    with pytest.raises(RpcFailure, match="too large"):
        batch_of(b'{"id":null,"error":{"code":1,"message":"too large"}}', 7, 9)
    for wrong in (b'{"id":7,"result":1}', b"[1,2]", b"[[],[]]", b"7", b"", b"null"):
        with pytest.raises(MalformedJsonError):
            batch_of(wrong, 7, 9)


def test_errors_are_cut_and_typed() -> None:
    long = failure_of({"code": -32000, "message": "a\n" * 5000, "data": "d" * MAX_ERROR_DATA})
    assert (long.code, len(long.message), long.data) == (-32000, MAX_ERROR_TEXT, None)
    assert "\n" not in str(long)
    short = failure_of({"code": 3, "message": "no", "data": {"a": 1}})
    assert (short.code, short.message, short.data) == (3, "no", {"a": 1})
    strange: list[Any] = ["text", ["list"], 5, {"code": "x", "message": {"a": 1}}, {"code": 1e300}, {"message": None}]
    for error in (*strange, {}):
        assert failure_of(error).code == 0
    assert failure_of("text").message == "text"
    assert failure_of({"message": {"a": 1}}).message == '{"a":1}'


def test_values_are_bounded() -> None:
    with pytest.raises(MalformedJsonError, match="values, more than 10"):
        decode_answer(b'{"id":7,"result":[' + b"[]," * 20 + b"[]]}", "eth_a", Any, AnswerLimit(1000, 10))
    headers = [("eth_getBlockByNumber", ["0x1", False])] * 20
    assert batch_limit(headers) == BATCHED_HEADER.times(20)
    assert batch_limit([("eth_getTransactionReceipt", [])] * 20) == RECEIPTS


def test_errors_in_bodies_with_an_error_status() -> None:
    failure = failure_in(b'{"id":1,"error":{"code":-32005,"message":"slow down"}}')
    assert failure is not None and failure.code == -32005
    assert [failure_in(body) for body in (b"<html>", b"[]", b'{"id":1,"result":1}', b"", b"1")] == [None] * 5


def test_the_ids_of_a_message() -> None:
    assert answered_ids(b' {"result":{"id":3},"id":7}', 10) == [b"7"]
    assert answered_ids(b'[{"id":"a"},{"id":null},{}]', 10) == [b'"a"', b"null", b""]
    assert answered_ids(b'{"error":{"code":1}}', 10) == [b"null"]
    assert answered_ids(b'{"method":"eth_subscription","params":{"result":{"id":1}}}', 10) is None
    with pytest.raises(MalformedJsonError, match="values, more than 10"):
        answered_ids(b"[" + b'{"id":1},' * 20 + b"{}]", 10)
