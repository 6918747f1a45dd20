"""The types of an engine's answers, and the values that are made of them [ENG1 to ENG10]."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer, PayloadAnswer, SyncingBlocks
from rollup_node.stages.protocol.answer_limits import L2_BLOCK
from rollup_node.stages.protocol.block_refs import l2_ref_from_json, payload_from_block_json
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.engine_json import PAYLOAD_FIELDS, envelope_from_json
from rollup_node.stages.protocol.foreign_json import decode_counted, decode_json
from rollup_node.stages.protocol.headers import HEADER_MEMBERS
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_quantity, hash_from_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.transaction_json import TransactionJson
from rollup_node.stages.protocol.types import L2BlockRef

S = TypeVar("S")
T = TypeVar("T")

MAX_STATUS = 40
"""Characters that are kept of a status."""


class PayloadStatus(msgspec.Struct, rename="camel"):
    """The answer to engine_newPayload."""

    status: str | None = None
    latest_valid_hash: str | None = None
    validation_error: str | None = None


class ForkchoiceUpdated(msgspec.Struct, rename="camel"):
    """The answer to engine_forkchoiceUpdated."""

    payload_status: PayloadStatus
    payload_id: str | None = None


def payload_answer(answer: PayloadStatus) -> PayloadAnswer:
    """Return a payload's status; one that is missing is no status the machines know. Raises HexError."""
    error = answer.validation_error
    _optional("latestValidHash", answer.latest_valid_hash, hash_from_hex)
    return PayloadAnswer(str(answer.status)[:MAX_STATUS], None if error is None else one_line(error))


def forkchoice_answer(forkchoice_updated: ForkchoiceUpdated) -> ForkchoiceAnswer:
    """Return the status after a forkchoice update, and the id of the block that it started. Raises HexError."""
    answer = payload_answer(forkchoice_updated.payload_status)
    return ForkchoiceAnswer(
        answer.status, _optional("payloadId", forkchoice_updated.payload_id, from_hex), answer.error
    )


class Syncing(msgspec.Struct, rename="camel"):
    """The answer to eth_syncing of an engine that syncs; each kind of engine has further members."""

    current_block: str | None = None
    highest_block: str | None = None


def syncing_blocks(answer: Syncing) -> SyncingBlocks:
    """Return the engine's present and highest block, 0 where it does not say. Raises HexError."""
    current = _optional("currentBlock", answer.current_block, from_quantity)
    return SyncingBlocks(current or 0, _optional("highestBlock", answer.highest_block, from_quantity) or 0)


_NoWithdrawals = list[msgspec.Raw] | None
_LISTS = {"transactions": list[str] | None, "withdrawals": _NoWithdrawals}
_Payload = msgspec.defstruct(
    "_Payload", [(field.json_name, _LISTS.get(field.json_name, str | None), None) for field in PAYLOAD_FIELDS]
)


class SealedEnvelope(msgspec.Struct, rename="camel"):
    """The answer to engine_getPayload of any version; the payload goes back to the engine as it is [ENG45]."""

    execution_payload: msgspec.Raw = msgspec.Raw(b"null")
    parent_beacon_block_root: str | None = None


def payload_of_envelope(answer: SealedEnvelope) -> ExecutionPayload:
    """Return the payload in an answer. Raises PayloadError, and MalformedJsonError for a member of another type."""
    payload = decode_counted(answer.execution_payload, _Payload | None, "the execution payload")
    return envelope_from_json(
        {
            "executionPayload": None if payload is None else msgspec.structs.asdict(payload),
            "parentBeaconBlockRoot": answer.parent_beacon_block_root,
        }
    )


class _Call(msgspec.Struct, gc=False):
    """What a reference needs of a transaction."""

    type: str | None = None
    input: str | None = None


Block: Any = msgspec.defstruct(
    "Block",
    [*HEADER_MEMBERS, ("transactions", list[TransactionJson] | None, None), ("withdrawals", _NoWithdrawals, None)],
)
"""A block with full transactions."""

BlockWithCalls: Any = msgspec.defstruct("BlockWithCalls", [*HEADER_MEMBERS, ("transactions", list[_Call] | None, None)])
"""The part of a block with full transactions that its reference is made of."""


def payload_of_block(answer: Any) -> ExecutionPayload:
    """Return the payload of a Block, whose hash is checked. Raises BlockError."""
    return payload_from_block_json(msgspec.structs.asdict(answer))


def ref_of_block(rollup: RollupConfig, answer: Any) -> L2BlockRef:
    """Return the reference of a BlockWithCalls, whose hash is not checked. Raises BlockError."""
    block = msgspec.structs.asdict(answer)
    if answer.transactions is not None:
        block["transactions"] = msgspec.to_builtins(answer.transactions[:1])
    return l2_ref_from_json(rollup, block)


def ref_of_result(rollup: RollupConfig, result: msgspec.Raw) -> L2BlockRef | None:
    """Return the reference of a block in an undecoded result, or None. Raises BlockError and MalformedJsonError."""
    value = decode_json(bytes(result), BlockWithCalls | None, L2_BLOCK.values)
    return None if value is None else ref_of_block(rollup, value)


def _optional(name: str, value: S | None, convert: Callable[[S], T]) -> T | None:
    """Return what a function makes of a member, unless it is missing. Raises HexError, which names it."""
    try:
        return None if value is None else convert(value)
    except HexError as error:
        raise HexError(f"{name}: {error}") from None
