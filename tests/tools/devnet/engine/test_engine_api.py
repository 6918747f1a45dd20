"""The Engine API as a rollup node uses it: build, import, derive, reorganise; and its answers to nonsense."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.stages.protocol.engine_json import attributes_to_json, envelope_from_json, payload_to_json
from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.engine.engine_api import EngineApi

ZERO = bytes(32)


class Engine:
    """An engine with the calls a node makes of it, by the versions of the block's time."""

    def __init__(self, small: Any) -> None:
        self.small = small
        self.ledger = small.ledger()
        self.methods = EngineApi(self.ledger).methods()

    def rules(self, time: int) -> Any:
        return self.ledger.spec.schedule.l2(time)

    def follow(self, head: bytes, safe: bytes = ZERO, finalized: bytes = ZERO) -> dict[str, Any]:
        answer = self.methods["engine_forkchoiceUpdatedV3"](state(head, safe, finalized), None)
        status: dict[str, Any] = answer["payloadStatus"]
        return status

    def start(self, head: bytes, attributes: PayloadAttributes) -> str:
        version = self.rules(attributes.timestamp).attributes_version
        method = self.methods[f"engine_forkchoiceUpdatedV{version}"]
        answer = method(state(head), attributes_to_json(attributes))
        assert answer["payloadStatus"]["status"] == "VALID"
        identity: str = answer["payloadId"]
        return identity

    def finish(self, identity: str, time: int) -> ExecutionPayload:
        version = self.rules(time).get_payload_version
        return envelope_from_json(self.methods[f"engine_getPayloadV{version}"](identity))

    def insert(self, payload: ExecutionPayload) -> dict[str, Any]:
        version = self.rules(payload.timestamp).new_payload_version
        beacon_root = None if payload.parent_beacon_root is None else to_hex(payload.parent_beacon_root)
        parameters = [payload_to_json(payload), [], beacon_root, []][: {2: 1, 3: 3, 4: 4}[version]]
        status: dict[str, Any] = self.methods[f"engine_newPayloadV{version}"](*parameters)
        return status

    def extend(self, *transactions: bytes, pool: bool = False) -> ExecutionPayload:
        head = self.ledger.chain.head
        attributes = self.small.attributes(head.header, *transactions, pool=pool)
        payload = self.finish(self.start(head.hash, attributes), attributes.timestamp)
        assert self.insert(payload)["status"] == "VALID"
        assert self.follow(payload.block_hash)["status"] == "VALID"
        return payload


def state(head: bytes, safe: bytes = ZERO, finalized: bytes = ZERO) -> dict[str, str]:
    return {
        "headBlockHash": to_hex(head),
        "safeBlockHash": to_hex(safe),
        "finalizedBlockHash": to_hex(finalized),
    }


@pytest.mark.parametrize("newest", ["regolith", "canyon", "ecotone", "holocene", "isthmus", "jovian", "karst"])
def test_sequencer_verifier_and_deriver_agree(small_chain: Any, newest: str) -> None:
    small = small_chain(newest)
    sequencer, verifier, deriver = Engine(small), Engine(small), Engine(small)
    for number in range(4):
        for key in range(3):
            sequencer.ledger.send(small.transfer(key, number, value=number))
        payload = sequencer.extend(small.deposit(bytes([number]) * 20, b"\xdd" * 20, mint=9), pool=True)
        assert len(payload.transactions) == 5
        assert verifier.insert(payload)["status"] == "VALID"
        assert verifier.follow(payload.block_hash)["status"] == "VALID"
        assert deriver.extend(*payload.transactions[1:]) == payload


def test_chains_cross_their_forks(small_chain: Any) -> None:
    times = ("canyon", "ecotone", "fjord", "granite", "holocene", "isthmus", "jovian", "karst")
    small = small_chain("regolith", {name: 1002 + 4 * index for index, name in enumerate(times)})
    one, other = Engine(small), Engine(small)
    for _ in range(20):
        payload = one.extend()
        assert other.insert(payload)["status"] == "VALID"
        other.follow(payload.block_hash)
    assert one.ledger.chain.head.hash == other.ledger.chain.head.hash


def test_unknown_parents_are_syncing_and_known_blocks_valid(small_chain: Any) -> None:
    small = small_chain()
    one, other = Engine(small), Engine(small)
    one.extend()
    second = one.extend()
    assert other.insert(second)["status"] == "SYNCING"
    assert other.follow(second.block_hash)["status"] == "SYNCING"
    assert one.insert(second) == {
        "status": "VALID",
        "latestValidHash": to_hex(second.block_hash),
        "validationError": None,
    }


def test_wrong_payloads_are_invalid_with_reasons_and_so_are_their_children(small_chain: Any) -> None:
    small = small_chain()
    one, other = Engine(small), Engine(small)
    good = one.extend(small.transfer(0, 0))
    hash_only = msgspec.structs.replace(good, gas_used=good.gas_used + 1)
    status = other.insert(hash_only)
    assert status["status"] == "INVALID" and "blockhash mismatch" in status["validationError"]
    wrong = msgspec.structs.replace(hash_only, block_hash=payload_block_hash(hash_only))
    status = other.insert(wrong)
    assert status["status"] == "INVALID" and "gas_used" in status["validationError"]
    assert status["latestValidHash"] == to_hex(other.ledger.chain.genesis.hash)
    child = msgspec.structs.replace(good, parent_hash=wrong.block_hash, block_number=2)
    child = msgspec.structs.replace(child, block_hash=payload_block_hash(child))
    assert other.insert(child)["status"] == other.follow(child.block_hash)["status"] == "INVALID"
    assert other.insert(good)["status"] == "VALID"


def test_labels_follow_and_must_be_ancestors(small_chain: Any) -> None:
    small = small_chain()
    engine = Engine(small)
    hashes = [engine.extend().block_hash for _ in range(4)]
    chain = engine.ledger.chain
    engine.follow(hashes[3], hashes[2], hashes[0])
    assert (chain.head.hash, chain.safe.hash, chain.finalized.hash) == (hashes[3], hashes[2], hashes[0])
    side = Engine(small)
    other = side.extend(small.transfer(0, 0)).block_hash
    for safe, finalized in ((other, ZERO), (ZERO, b"\x01" * 32)):
        with pytest.raises(JsonRpcError) as raised:
            engine.follow(hashes[3], safe, finalized)
        assert raised.value.code == -38002
    with pytest.raises(JsonRpcError):
        engine.follow(hashes[0], hashes[2])
    assert chain.head.hash == hashes[3]


def test_a_reorganisation_goes_to_another_branch_and_back(small_chain: Any) -> None:
    small = small_chain()
    engine = Engine(small)
    first = engine.extend().block_hash
    old = engine.extend(small.transfer(0, 0))
    engine.follow(old.block_hash, first, first)
    transaction = engine.ledger.chain.head.executed[1].transaction.hash
    assert engine.follow(first)["status"] == "VALID" and engine.ledger.chain.place(transaction) is None
    new = engine.extend(small.transfer(1, 0))
    assert new.block_number == old.block_number and engine.ledger.chain.safe.hash == first
    assert engine.ledger.pool.get(transaction) is not None
    engine.follow(old.block_hash)
    assert engine.ledger.chain.place(transaction) is not None and engine.ledger.pool.get(transaction) is None


def test_attributes_must_fit_their_time(small_chain: Any) -> None:
    small = small_chain("jovian")
    engine = Engine(small)
    head = engine.ledger.chain.head
    given = attributes_to_json(small.attributes(head.header))
    update = engine.methods["engine_forkchoiceUpdatedV3"]
    for change in ("withdrawals", "parentBeaconBlockRoot", "eip1559Params", "minBaseFee", "gasLimit", "timestamp"):
        with pytest.raises(JsonRpcError) as raised:
            update(state(head.hash), {key: value for key, value in given.items() if key != change})
        assert raised.value.code == -38003 and change in raised.value.message
    for changed in ({"timestamp": hex(head.header.timestamp)}, {"transactions": [*given["transactions"], "0x02c0"]}):
        with pytest.raises(JsonRpcError) as raised:
            update(state(head.hash), given | changed)
        assert raised.value.code == -38003
    with pytest.raises(JsonRpcError) as raised:
        engine.methods["engine_forkchoiceUpdatedV2"](state(head.hash), given)
    assert raised.value.code == -38005
    assert update(state(head.hash), given | {"minBaseFee": "0x0"})["payloadId"]


def test_versions_and_shapes_are_checked(small_chain: Any) -> None:
    small = small_chain("jovian")
    engine = Engine(small)
    payload = engine.extend()
    identity = engine.start(payload.block_hash, small.attributes(engine.ledger.chain.head.header))
    for version in (1, 2, 3, 5):
        with pytest.raises(JsonRpcError) as raised:
            engine.methods[f"engine_getPayloadV{version}"](identity)
        assert raised.value.code == -38005
    for unknown in ("0x0000000000000000", 7, None):
        with pytest.raises(JsonRpcError) as raised:
            engine.methods["engine_getPayloadV4"](unknown)
        assert raised.value.code == -38001
    body, root = payload_to_json(payload), to_hex(payload.parent_beacon_root or ZERO)
    with pytest.raises(JsonRpcError) as raised:
        engine.methods["engine_newPayloadV3"](body, [], root)
    assert raised.value.code == -38005
    for parameters in (({},), (body | {"stateRoot": "0x"}, [], root, []), (body, ["0x01"], root, [])):
        with pytest.raises(JsonRpcError) as raised:
            engine.methods["engine_newPayloadV4"](*parameters)
        assert raised.value.code == -32602
    for nonsense in (None, {}, {"headBlockHash": "0x12"}):
        with pytest.raises((JsonRpcError, HexError)):
            engine.methods["engine_forkchoiceUpdatedV3"](nonsense)
    names = engine.methods["engine_exchangeCapabilities"]([])
    assert "engine_newPayloadV4" in names and "engine_exchangeCapabilities" not in names
