"""Decodes and checks JSON-RPC answers: bounded, with results of the type that the caller expects."""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.protocol.answer_limits import BATCHED_HEADER, HEADER, RECEIPTS, SMALL, AnswerLimit, answer_limit
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json
from rollup_node.stages.protocol.texts import MAX_ERROR_TEXT

Call = tuple[str, Sequence[Any]]

MAX_ERROR_DATA = 4096
"""Bytes of JSON in an error's `data`; longer data are left out."""


class _Answer(msgspec.Struct, gc=False):
    """One response object; absent members are empty."""

    id: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Heading(msgspec.Struct, gc=False):
    id: msgspec.Raw = msgspec.Raw()
    method: msgspec.Raw = msgspec.Raw()


class _Error(msgspec.Struct):
    code: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()


def decode_answer(body: bytes, method: str, shape: Any, limit: AnswerLimit) -> Any:
    """Return the result of one call as a value of a type msgspec knows; its id may be any [LHD29].

    Raises RpcFailure for an error object, MalformedJsonError for anything that is no answer."""
    return _result(_envelope(body, method, limit), method, shape, limit)


def split_batch(body: bytes, ids: Sequence[int], limit: AnswerLimit) -> list["_Answer"]:
    """Return the answers to a batch's calls in order. Raises RpcFailure for a refused batch, MalformedJsonError."""
    if body.lstrip()[:1] == b"{":
        _result(_envelope(body, "a batch", limit), "a batch", msgspec.Raw, limit)
    if body.lstrip()[:1] != b"[":
        raise MalformedJsonError("the answer to a batch is not a list")
    # Ids are compared as texts: they may be of any type.
    by_id = {bytes(answer.id): answer for answer in decode_json(body, list[_Answer], limit.values)}
    missing = sum(b"%d" % id_ not in by_id for id_ in ids)
    if missing:
        raise MalformedJsonError(f"{missing} of {len(ids)} calls of a batch were not answered")
    return [by_id[b"%d" % id_] for id_ in ids]


def decode_batch(answers: Sequence["_Answer"], calls: Sequence[Call], shape: Any, limit: AnswerLimit) -> list[Any]:
    """Return the results and RpcFailures in the answers to the calls of a batch. Raises MalformedJsonError."""
    results: list[Any] = []
    for answer, (method, _) in zip(answers, calls, strict=True):
        try:
            results.append(_result(answer, method, shape, limit))
        except RpcFailure as failure:
            results.append(failure)
    return results


def answered_ids(message: bytes, max_values: int) -> list[bytes] | None:
    """Return the ids, as JSON texts, of the answers in a message of a connection that carries many requests.

    None for a notification. `max_values` limits a batch. Raises MalformedJsonError for anything else."""
    if message.lstrip()[:1] == b"[":
        return [bytes(item.id) for item in decode_json(message, list[_Heading], max_values)]
    # Only the members that are named take memory, whatever the message has.
    heading = decode_json(message, _Heading, len(message))
    if not bytes(heading.id) and bytes(heading.method):
        return None
    return [bytes(heading.id) or b"null"]


def batch_limit(calls: Sequence[Call]) -> AnswerLimit:
    """Return the limit of the answer to a batch of one method: that of each call, at most that of all receipts."""
    one = answer_limit(*calls[0])
    most = (BATCHED_HEADER if one is HEADER else one).times(len(calls))
    return AnswerLimit(min(most.bytes, RECEIPTS.bytes), min(most.values, RECEIPTS.values))


def failure_in(body: bytes) -> RpcFailure | None:
    """Return the error object in a body; None if it has none, or is not JSON-RPC."""
    try:
        _result(_envelope(body, "the call", SMALL), "the call", msgspec.Raw, SMALL)
    except RpcFailure as failure:
        return failure
    except MalformedJsonError:
        pass
    return None


def _envelope(body: bytes, method: str, limit: AnswerLimit) -> _Answer:
    if body.lstrip()[:1] == b"[":
        raise MalformedJsonError(f"the answer to {method} is not one to this request")
    answer: _Answer = decode_json(body, _Answer, limit.values, f"the answer to {method}")
    return answer


def _result(answer: _Answer, method: str, shape: Any, limit: AnswerLimit) -> Any:
    if bytes(answer.error) not in (b"", b"null"):
        raise _failure(bytes(answer.error))
    result = bytes(answer.result)
    if not result:
        raise MalformedJsonError(f"the answer to {method} has neither result nor error")
    return (
        answer.result if shape is msgspec.Raw else decode_json(result, shape, limit.values, f"the answer to {method}")
    )


def _failure(error: bytes) -> RpcFailure:
    try:
        result = msgspec.json.decode(error, type=_Error)
    except (msgspec.DecodeError, RecursionError):
        return RpcFailure(0, _text(error))
    code, data = bytes(result.code), bytes(result.data)
    number = int(code) if len(code) < 12 and code.removeprefix(b"-").isdigit() else 0
    return RpcFailure(number, _text(bytes(result.message)), orjson.loads(data) if _is_short_json(data) else None)


def _is_short_json(data: bytes) -> bool:
    try:
        return 0 < len(data) <= MAX_ERROR_DATA and orjson.loads(data) is not None
    except orjson.JSONDecodeError:
        return False


def _text(value: bytes) -> str:
    """Return the text of a JSON string, or the JSON text of any other value."""
    try:
        return msgspec.json.decode(value, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return value[: 4 * MAX_ERROR_TEXT].decode("utf-8", "replace")
