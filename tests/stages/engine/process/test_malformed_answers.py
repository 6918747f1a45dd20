"""No JSON that an execution engine may answer with ends the process: each answer is a value, an error that names the
engine, or a wait [ENG1 to ENG10]."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.engine_json import payload_to_json
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.fake_engine import block_json

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=70), st.just("0x"), st.just("0x" + "f" * 64)
)
VALUES = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all members and items of a JSON value, its own first."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in items for place in _paths(part, (*path, key)))]


def _replaced(value: Any, path: Sequence[Any], part: Any) -> Any:
    if not path:
        return part
    copied = value.copy()
    copied[path[0]] = _replaced(value[path[0]], path[1:], part)
    return copied


def _cases(chain: ChainFixture) -> list[tuple[api.EngineCall | str, Any]]:
    """Each call with an answer as it should be."""
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100, [chain.user]))
    block = block_json(payload)
    status = {"status": "VALID", "latestValidHash": "0x" + "ab" * 32, "validationError": None}
    heads = Forkchoice(payload.block_hash, payload.block_hash, payload.block_hash)
    envelope = {"executionPayload": payload_to_json(payload), "parentBeaconBlockRoot": "0x" + "cd" * 32}
    return [
        (api.GetBlock("latest"), block),
        (api.GetBlockRef("latest"), block),
        (api.GetBlockRefs(1, 1), [block]),
        (api.ForkchoiceUpdate(heads, None), {"payloadStatus": status, "payloadId": "0x0102030405060708"}),
        (api.GetPayload(b"\1" * 8, payload.timestamp), envelope),
        (api.NewPayload(payload), status),
        ("check_chain", hex(chain.rollup.l2_chain_id)),
        ("storage_root", {"accountProof": ["0x" + "00" * 40], "storageHash": "0x" + "00" * 32}),
    ]


def _body(request: bytes, answer: Any) -> bytes:
    """Return the response with an answer; one that is a list is for the calls of a batch, from the first on."""
    calls = json.loads(request)
    if isinstance(calls, dict):
        return json.dumps({"jsonrpc": "2.0", "id": calls["id"], "result": answer}).encode()
    results = [*answer, *[None] * len(calls)]
    return json.dumps([{"id": call["id"], "result": item} for call, item in zip(calls, results, strict=False)]).encode()


async def _ask(client: EngineClient, call: api.EngineCall | str, head: ExecutionPayload) -> Any:
    match call:
        case "check_chain":
            return await client.check_chain()
        case "storage_root":
            return await client.storage_root(b"\2" * 20, head)
    assert not isinstance(call, str)
    return await client.ask(call)


@pytest.mark.parametrize("case", range(8))
def test_any_json_in_place_of_any_part_of_an_answer(
    chain: ChainFixture, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, whole = _cases(chain)[case]
    head = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100, [chain.user]))
    places = _paths(whole)
    answers: list[Any] = [whole]

    async def post(_: JsonRpcClient, method: str, request: bytes, *__: object) -> bytes:
        return _body(request, answers[-1])

    # The bytes of the response are replaced, so that the decoding is that of the node.
    monkeypatch.setattr(JsonRpcClient, "_post", post)

    async def ask() -> Any:
        client = EngineClient("http://127.0.0.1:1", None, 1.0, chain.rollup)
        try:
            return await _ask(client, call, head)
        except TemporaryError as error:
            text = str(error)
            assert text.startswith("execution engine 127.0.0.1:1: ") and len(text) < 1000 and text.isprintable()
            return error
        finally:
            await client.close()

    with asyncio.Runner() as runner:
        result = runner.run(ask())
        assert isinstance(result, TemporaryError) == (call == "storage_root"), "the answers are as they should be"

        @settings(deadline=None, max_examples=50)
        @given(st.sampled_from(places), VALUES)
        def check(path: tuple[Any, ...], part: Any) -> None:
            if case == 2 and not path:
                part = part if isinstance(part, list) else [part]
            answers.append(_replaced(whole, path, part))
            runner.run(ask())

        check()
