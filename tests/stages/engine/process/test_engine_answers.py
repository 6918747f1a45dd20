"""An engine's answers as values of the machines: the same as the untyped conversions of the protocol make."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer, PayloadAnswer
from rollup_node.stages.engine.process import engine_answers as answers
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_from_json, payload_from_block_json
from rollup_node.stages.protocol.engine_json import PayloadError, envelope_from_json, envelope_to_json
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json
from rollup_node.stages.protocol.hex_encoding import HexError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.chains.chain_fixture import ALL_FORKS, ChainFixture, chain_with
from tests.support.engine.fake_engine import block_json

HASH = "0x" + "ab" * 32
ERRORS = (BlockError, PayloadError, HexError)


def decoded(value: Any, shape: Any) -> Any:
    return decode_json(json.dumps(value).encode(), shape, 10_000)


def sealed(chain: ChainFixture) -> ExecutionPayload:
    return chain.seal(chain.genesis, chain.attributes(chain.genesis, 100, [chain.user]))


def outcome(convert: Callable[..., Any], *arguments: Any) -> Any:
    """Return a value, or the text of an error."""
    try:
        return convert(*arguments)
    except ERRORS as error:
        return str(error)


def variants(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the object with each of its strings changed, null and left out."""
    names = [name for name, held in whole.items() if isinstance(held, str)]
    texts = (None, "", "0x", "0x0", "0xzz", "0x" + "ff" * 40)
    changed = [whole | {name: text} for name in names for text in texts]
    return [*changed, *({key: whole[key] for key in whole if key != name} for name in names)]


# --- statuses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ({"status": "VALID", "latestValidHash": HASH}, PayloadAnswer("VALID")),
        ({"status": "INVALID", "validationError": "bad\nroot", "witness": 5}, PayloadAnswer("INVALID", "bad root")),
        ({"status": "S" * 99, "validationError": "e" * 999}, PayloadAnswer("S" * 40, "e" * 500)),
        ({"status": None, "validationError": None}, PayloadAnswer("None")),
        ({}, PayloadAnswer("None")),
    ],
)
def test_payload_statuses(status: dict[str, Any], answer: PayloadAnswer) -> None:
    assert answers.payload_answer(decoded(status, answers.PayloadStatus)) == answer
    whole = {"payloadStatus": status, "payloadId": "0x0102"}
    forkchoice = answers.forkchoice_answer(decoded(whole, answers.ForkchoiceUpdated))
    assert forkchoice == ForkchoiceAnswer(answer.status, b"\x01\x02", answer.error)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"payloadStatus": {"latestValidHash": "0x01"}}, "latestValidHash"),
        ({"payloadStatus": {}, "payloadId": "1"}, "payloadId"),
    ],
)
def test_hex_of_statuses_is_checked(value: Any, name: str) -> None:
    with pytest.raises(HexError, match=f"^{name}: "):
        answers.forkchoice_answer(decoded(value, answers.ForkchoiceUpdated))


# --- payloads ------------------------------------------------------------------------------------------------------


def test_envelopes(chain: ChainFixture) -> None:
    payload = sealed(chain)
    result = envelope_to_json(payload) | {"blockValue": 5, "blobsBundle": {"blobs": []}}
    assert answers.payload_of_envelope(decoded(result, answers.SealedEnvelope)) == payload
    whole = result["executionPayload"]
    for inner in (*variants(whole), whole | {"withdrawals": [{}]}, whole | {"transactions": None}, None):
        changed = result | {"executionPayload": inner}
        typed = decoded(changed, answers.SealedEnvelope)
        assert outcome(answers.payload_of_envelope, typed) == outcome(envelope_from_json, changed)


@pytest.mark.parametrize("name", ["gasUsed", "transactions", "withdrawals", "withdrawalsRoot"])
def test_members_of_payloads_of_another_type_are_named(chain: ChainFixture, name: str) -> None:
    result = envelope_to_json(sealed(chain))
    result["executionPayload"][name] = 5
    envelope = decoded(result, answers.SealedEnvelope)
    with pytest.raises(MalformedJsonError, match=rf"^the execution payload .* got `int` - at `\$\.{name}`"):
        answers.payload_of_envelope(envelope)


# --- blocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forks", [1, 3, len(ALL_FORKS)])
def test_blocks(forks: int) -> None:
    chain = chain_with(dict.fromkeys(ALL_FORKS[:forks], 0))
    payload = sealed(chain)
    whole = block_json(payload) | {"size": 5, "uncles": [[]]}
    assert answers.payload_of_block(decoded(whole, answers.Block)) == payload
    assert answers.ref_of_block(chain.rollup, decoded(whole, answers.BlockWithCalls)) == chain.ref(payload)
    transactions: list[Any] = [None, [], [{}], [{"type": "0x7e"}], [{"type": "0x2"}]]
    withdrawals: list[Any] = [None, [], [{}]]
    changed = [whole | {"transactions": transaction} for transaction in transactions]
    changed += [whole | {"withdrawals": withdrawal} for withdrawal in withdrawals]
    for variant in (*variants(whole), *changed):
        block, calls = decoded(variant, answers.Block), decoded(variant, answers.BlockWithCalls)
        assert outcome(answers.payload_of_block, block) == outcome(payload_from_block_json, variant)
        ref = outcome(answers.ref_of_block, chain.rollup, calls)
        assert ref == outcome(l2_ref_from_json, chain.rollup, variant)


def test_references_of_undecoded_results(chain: ChainFixture) -> None:
    payload = sealed(chain)
    whole = block_json(payload)

    def ref_of(value: Any) -> Any:
        return answers.ref_of_result(chain.rollup, msgspec.Raw(json.dumps(value).encode()))

    assert ref_of(whole) == chain.ref(payload)
    assert ref_of(None) is None
    with pytest.raises(BlockError, match="hash: expected 0x-prefixed hex"):
        ref_of(whole | {"hash": None})
    with pytest.raises(MalformedJsonError, match=r"\$\.hash"):
        ref_of(whole | {"hash": 5})
