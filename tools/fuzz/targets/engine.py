"""Answers of the execution engine, and of the other services that the engine process asks."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import orjson

from rollup_node.stages.engine.process import engine_answers as answers
from rollup_node.stages.engine.process.neighbour_clients import FollowClient
from rollup_node.stages.io.http.endpoint_errors import RpcFailure
from rollup_node.stages.io.http.json_answers import decode_answer
from rollup_node.stages.protocol.answer_limits import L2_BLOCK, SMALL, AnswerLimit
from rollup_node.stages.protocol.block_refs import BlockError
from rollup_node.stages.protocol.engine_json import (
    PayloadError,
    attributes_from_json,
    encode_payload,
    envelope_to_json,
    payload_from_json,
)
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.mpt import AccountProof, ProofError
from rollup_node.stages.protocol.payloads import payload_block_hash, payload_header
from rollup_node.tools.fuzz.targets.chain_seeds import (
    ACCOUNT_NODE,
    LEGACY_TO_INBOX,
    STATE_ROOT,
    answer,
    header_json,
    payload,
    rollup,
)
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of

T = TypeVar("T")
READ_ERRORS = (MalformedJsonError, RpcFailure, PayloadError, BlockError, HexError, ProofError)
"""Those that the engine's client turns into a TemporaryError."""


def _reader(method: str, shape: Any, convert: Callable[[Any], object]) -> Callable[[bytes], object]:
    limit: AnswerLimit = L2_BLOCK if "Payload" in method or "Block" in method else SMALL

    def read(data: bytes) -> object:
        answer = decode_answer(data, method, shape, limit)
        return "null" if answer is None else convert(answer)

    return read


def _status(payload_status: answers.PayloadStatus) -> object:
    return len(answers.payload_answer(payload_status).status) > 10


def _forkchoice(forkchoice_updated: answers.ForkchoiceUpdated) -> object:
    return answers.forkchoice_answer(forkchoice_updated).payload_id is None


def _envelope(value: Any) -> object:
    """Return a payload that is read encodes to JSON that is read as the same, and has a hash."""
    read = answers.payload_of_envelope(value)
    assert payload_from_json(orjson.loads(encode_payload(read)), read.parent_beacon_root) == read
    payload_block_hash(read)
    return len(read.transactions)


def _block(value: Any) -> object:
    return len(answers.payload_of_block(value).transactions)


def _ref(value: Any) -> object:
    return answers.ref_of_block(rollup(), value).number == 1


def _syncing(value: bool | answers.Syncing) -> object:
    return value if isinstance(value, bool) else answers.syncing_blocks(value).highest > 1 << 40


def _proof(account_proof: AccountProof) -> object:
    return account_proof.account(STATE_ROOT, bytes(20))


def _leader(value: bool) -> object:
    return value


def attributes(data: bytes) -> object:
    """Payload attributes from a JSON value."""
    return attributes_from_json(orjson.loads(data)).no_tx_pool


class _Answered:
    """Takes the place of a JSON-RPC client: every call is answered with the same bytes."""

    name = "127.0.0.1"

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def call_typed(self, shape: Any, method: str, *params: Any) -> Any:
        return decode_answer(self._data, method, shape, SMALL)


def follow_status(data: bytes) -> object:
    """Return the status of a follow source, and its chain.

    An answer that is no JSON-RPC is an EndpointError of the client, which is tested with it."""
    client = FollowClient("http://127.0.0.1:1", 1.0, rollup())
    client._rpc = _Answered(data)  # type: ignore[assignment]
    try:
        finished(client.check_chain())
    except (TemporaryError, MalformedJsonError):
        client._chain_checked = True
    return finished(client.status()).safe.number == 1


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("the coroutine waits")


_PAYLOAD = payload()
_ZERO = to_hex(bytes(32))
_STATUS = {"status": "VALID", "latestValidHash": _ZERO, "validationError": "none"}
_L2_BLOCK = header_json(payload_header(_PAYLOAD)) | {
    "hash": to_hex(_PAYLOAD.block_hash),
    "withdrawals": [],
    "transactions": [{"type": "0x7e", "input": to_hex(_PAYLOAD.transactions[0][-178:])}, LEGACY_TO_INBOX],
}
_EMPTY_BLOCK = msgspec.structs.replace(_PAYLOAD, transactions=())
_L2_EMPTY = header_json(payload_header(_EMPTY_BLOCK)) | {
    "hash": to_hex(payload_block_hash(_EMPTY_BLOCK)),
    "transactions": [],
}
_ATTRIBUTES = {
    **{"timestamp": "0x6553f102", "prevRandao": _ZERO, "suggestedFeeRecipient": to_hex(bytes(20)), "withdrawals": []},
    **{"parentBeaconBlockRoot": _ZERO, "transactions": ["0x7e00"], "noTxPool": True, "gasLimit": "0x1c9c380"},
    **{"eip1559Params": to_hex(bytes(8)), "minBaseFee": 5},
}
_ID = {"hash": _ZERO, "number": 1}
_REF = _ID | {"parentHash": _ZERO, "timestamp": 2, "l1origin": _ID, "sequenceNumber": 0}
_SYNC_STATUS = {"current_l1": _ID, "local_safe_l2": _REF, "safe_l2": _REF, "finalized_l2": _REF}
_CHAIN = {"l2_chain_id": 901, "genesis": {"l2": {"hash": to_hex(rollup().genesis.l2.hash), "number": 0}}}
_ERROR = orjson.dumps({"id": 1, "error": {"code": -38002, "message": "invalid forkchoice", "data": None}})


def _target(method: str, shape: Any, convert: Callable[[Any], object], *results: Any) -> FuzzTarget:
    inputs = [*map(answer, results), _ERROR]
    return FuzzTarget(ENGINE, _reader(method, shape, convert), one_of(inputs), READ_ERRORS, JSON_TOKENS)


ENGINE = "execution engine"
TARGETS = {
    "engine-status": _target("engine_newPayloadV4", answers.PayloadStatus, _status, _STATUS),
    "engine-forkchoice": _target(
        *("engine_forkchoiceUpdatedV3", answers.ForkchoiceUpdated, _forkchoice),
        *({"payloadStatus": _STATUS, "payloadId": "0x0102030405060708"}, {"payloadStatus": {"status": "SYNCING"}}),
    ),
    "engine-payload": _target(
        *("engine_getPayloadV4", answers.SealedEnvelope, _envelope),
        *(envelope_to_json(payload(version)) for version in (1, 2, 3, 4)),
    ),
    "engine-block": _target("eth_getBlockByHash", answers.Block | None, _block, _L2_BLOCK, _L2_EMPTY),
    "engine-block-ref": _target("eth_getBlockByNumber", answers.BlockWithCalls | None, _ref, _L2_BLOCK),
    "engine-syncing": _target(
        *("eth_syncing", bool | answers.Syncing, _syncing, False),
        {"currentBlock": "0x1", "highestBlock": "0x2"},
    ),
    "engine-proof": _target("eth_getProof", AccountProof, _proof, {"accountProof": [to_hex(ACCOUNT_NODE)]}),
    "conductor-answer": _target("conductor_leader", bool, _leader, True)._replace(sender="conductor"),
    "follow-status": FuzzTarget(
        *("follow source", follow_status, one_of([answer(_SYNC_STATUS), answer(_CHAIN), _ERROR])),
        *((TemporaryError, MalformedJsonError), JSON_TOKENS),
    ),
    "payload-attributes": FuzzTarget(
        *("RPC client", attributes, one_of([orjson.dumps(_ATTRIBUTES)]), (PayloadError, orjson.JSONDecodeError)),
        JSON_TOKENS,
    ),
}
"""The targets by name."""
