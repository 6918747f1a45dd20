"""The Engine API as a rollup node uses it (build, insert, reorg), and its errors.

tests/interop/test_engine_answers.py compares what it answers to attributes with op-geth and op-reth."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.engine_json import attributes_to_json, envelope_from_json, payload_to_json
from rollup_node.stages.protocol.forks.rules import L2Rules
from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, payload_block_hash
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.engine.engine_api import EngineApi, Trait
from tests.support.chains.l2_test_chain import L2TestChain

ZERO = bytes(32)


class EngineDriver:
    """An engine with the calls that a node makes, in the versions of each block's forks."""

    def __init__(self, l2: L2TestChain) -> None:
        self.l2 = l2
        self.backend = l2.backend()
        self.methods = EngineApi(self.backend).methods()

    def rules(self, time: int) -> L2Rules:
        return self.backend.spec.schedule.l2(time)

    def follow(self, head: bytes, safe: bytes = ZERO, finalized: bytes = ZERO) -> dict[str, Any]:
        response: dict[str, Any] = self.methods["engine_forkchoiceUpdatedV3"](state(head, safe, finalized), None)
        return response["payloadStatus"]  # type: ignore[no-any-return]

    def start(self, head: bytes, attributes: PayloadAttributes) -> str:
        version = self.rules(attributes.timestamp).attributes_version
        method = self.methods[f"engine_forkchoiceUpdatedV{version}"]
        response = method(state(head), attributes_to_json(attributes))
        assert response["payloadStatus"]["status"] == "VALID"
        identity: str = response["payloadId"]
        return identity

    def finish(self, identity: str, time: int) -> ExecutionPayload:
        version = self.rules(time).get_payload_version
        return envelope_from_json(self.methods[f"engine_getPayloadV{version}"](identity))

    def insert(self, payload: ExecutionPayload) -> dict[str, Any]:
        version = self.rules(payload.timestamp).new_payload_version
        beacon_root = None if payload.parent_beacon_root is None else to_hex(payload.parent_beacon_root)
        parameters: list[Any] = [payload_to_json(payload), [], beacon_root, []][: {2: 1, 3: 3, 4: 4}[version]]
        status: dict[str, Any] = self.methods[f"engine_newPayloadV{version}"](*parameters)
        return status

    def extend(self, *transactions: bytes, pool: bool = False) -> ExecutionPayload:
        """Build a block on the head, inserts it and follows it."""
        head = self.backend.chain.head
        attributes = self.l2.attributes(head.header, *transactions, pool=pool)
        payload = self.finish(self.start(head.hash, attributes), attributes.timestamp)
        assert self.insert(payload)["status"] == "VALID"
        assert self.follow(payload.block_hash)["status"] == "VALID"
        return payload


def error_of(call: Callable[..., Any], *parameters: Any) -> tuple[int, str]:
    """Return code and text of the error with which a call is refused."""
    with pytest.raises(JsonRpcError) as raised:
        call(*parameters)
    return raised.value.code, raised.value.data["err"] if raised.value.data else raised.value.message


def state(head: bytes, safe: bytes = ZERO, finalized: bytes = ZERO) -> dict[str, str]:
    return {"headBlockHash": to_hex(head), "safeBlockHash": to_hex(safe), "finalizedBlockHash": to_hex(finalized)}


def test_invalid_payloads_have_an_error_and_invalid_children() -> None:
    l2 = L2TestChain()
    one, other = EngineDriver(l2), EngineDriver(l2)
    good = one.extend(l2.transfer(0, 0))
    hash_only = msgspec.structs.replace(good, gas_used=good.gas_used + 1)
    status = other.insert(hash_only)
    assert status["status"] == "INVALID" and "blockhash mismatch" in status["validationError"]
    wrong = msgspec.structs.replace(hash_only, block_hash=payload_block_hash(hash_only))
    status = other.insert(wrong)
    assert status["status"] == "INVALID" and "gas_used" in status["validationError"]
    assert status["latestValidHash"] == to_hex(other.backend.chain.genesis.hash)
    child = msgspec.structs.replace(good, parent_hash=wrong.block_hash, block_number=2)
    child = msgspec.structs.replace(child, block_hash=payload_block_hash(child))
    assert other.insert(child)["status"] == other.follow(child.block_hash)["status"] == "INVALID"
    assert other.insert(good)["status"] == "VALID"


def test_safe_and_finalized_must_be_ancestors_of_the_head() -> None:
    l2 = L2TestChain()
    engine = EngineDriver(l2)
    hashes = [engine.extend().block_hash for _ in range(4)]
    chain = engine.backend.chain
    engine.follow(hashes[3], hashes[2], hashes[0])
    assert (chain.head.hash, chain.safe.hash, chain.finalized.hash) == (hashes[3], hashes[2], hashes[0])
    side = EngineDriver(l2)
    other = side.extend(l2.transfer(0, 0)).block_hash
    for heads in ((hashes[3], other, ZERO), (hashes[3], ZERO, b"\x01" * 32), (hashes[0], hashes[2])):
        assert error_of(engine.follow, *heads)[0] == -38002
    assert chain.head.hash == hashes[3]


def test_versions_and_parameters_are_checked() -> None:
    l2 = L2TestChain("jovian")
    engine = EngineDriver(l2)
    payload = engine.extend()
    attributes = l2.attributes(engine.backend.chain.head.header)
    identity = engine.start(payload.block_hash, attributes)
    text = attributes_to_json(attributes) | {"minBaseFee": "0x0"}
    assert engine.methods["engine_forkchoiceUpdatedV3"](state(payload.block_hash), text)["payloadId"]
    assert error_of(engine.methods["engine_forkchoiceUpdatedV2"], state(payload.block_hash), text)[0] == -38005
    for version in (1, 2, 3, 5):
        assert error_of(engine.methods[f"engine_getPayloadV{version}"], identity)[0] == -38005
    for unknown in ("0x0000000000000000", 7, None):
        assert error_of(engine.methods["engine_getPayloadV4"], unknown)[0] == -38001
    body, root = payload_to_json(payload), to_hex(payload.parent_beacon_root or ZERO)
    assert error_of(engine.methods["engine_newPayloadV3"], body, [], root)[0] == -38005
    malformed_parameters: tuple[tuple[Any, ...], ...] = (
        ({},),
        (body | {"stateRoot": "0x"}, [], root, []),
        (body, ["0x01"], root, []),
    )
    for parameters in malformed_parameters:
        assert error_of(engine.methods["engine_newPayloadV4"], *parameters)[0] == -32602
    for malformed in (None, {}, {"headBlockHash": "0x12"}):
        with pytest.raises((JsonRpcError, HexError)):
            engine.methods["engine_forkchoiceUpdatedV3"](malformed)
    names = engine.methods["engine_exchangeCapabilities"]([])
    assert "engine_newPayloadV4" in names and "engine_exchangeCapabilities" not in names


def test_an_engine_with_azul_serves_its_version_alone() -> None:
    """Any other engine refuses it, so that no block of that time is taken from one [LFT10]."""
    l2 = L2TestChain("jovian", later={"azul": 0})
    engine, other = EngineDriver(l2), EngineDriver(L2TestChain("jovian"))
    head = engine.backend.chain.head
    assert engine.rules(head.header.timestamp).get_payload_version == 5
    assert engine.extend().block_number == head.header.number + 1
    identity = other.start(other.backend.chain.head.hash, other.l2.attributes(other.backend.chain.head.header))
    assert error_of(other.methods["engine_getPayloadV5"], identity)[0] == -38005


def test_a_lost_build_alone_does_not_hide_a_transaction_that_cannot_be_executed() -> None:
    """test_engine_answers.py compares no trait, and both, with the engines that answer so."""
    l2 = L2TestChain()
    engine = EngineDriver(l2)
    engine.methods = EngineApi(engine.backend, traits=frozenset({Trait.LOST_BUILD})).methods()
    head = engine.backend.chain.head
    attributes = l2.attributes(head.header, l2.transfer(0, 9))
    refusal = error_of(lambda: engine.finish(engine.start(head.hash, attributes), attributes.timestamp))
    assert refusal == (-38003, "transaction 1: nonce too high: 9, next is 0")
