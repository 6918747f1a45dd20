"""A hostile peer of a router: memory and time stay bounded, its score falls, honest peers are served."""

import tracemalloc
from collections.abc import Callable

import pytest

from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator, ValidationFailure
from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.p2p.encoding.snappy import MAX_BYTES
from rollup_node.stages.p2p.gossipsub.router import MalformedRpc
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    IHave,
    Prune,
    PubsubMessage,
    Rpc,
    Subscription,
    encode_rpc,
)
from rollup_node.stages.p2p.gossipsub.validation_queue import ValidationResult
from tests.support.p2p.blocks import SIGNER, block, chain_config, signed
from tests.support.p2p.gossip_routers import TOPIC, RouterHarness, compressed

HONEST, ATTACKER = b"000", b"attacker"


def harness_with_attacker() -> RouterHarness:
    harness = RouterHarness()
    assert harness.add_members(8)[0] == HONEST
    harness.add_peer("attacker")
    return harness


def forwards_blocks(harness: RouterHarness, content: bytes = b"good block") -> bool:
    """Whether a block of an honest peer is validated and forwarded to the other honest peers."""
    return harness.accept(HONEST, content) >= 7


def test_a_flood_of_grafts() -> None:
    harness = harness_with_attacker()
    harness.receive_control(ATTACKER, graft=[TOPIC])
    harness.heartbeats(60)
    harness.receive_control(ATTACKER, prune=[Prune(TOPIC, 60)])
    totals = []
    for _ in range(10):
        harness.receive_control(ATTACKER, graft=[TOPIC])
        totals.append(harness.scorer.score(ATTACKER))
    assert ATTACKER not in harness.mesh
    assert totals == [0.0, 0.0, 0.0, -64.0, -64.0, -64.0, -64.0, -64.0, -64.0, -64.0]
    assert harness.scorer.score(ATTACKER) < harness.scorer.thresholds.graylist, "its RPCs are ignored"
    assert forwards_blocks(harness)
    harness.heartbeats(240)
    assert harness.scorer.score(ATTACKER) == 0.0, "the penalty decays"


def test_a_flood_of_ihave() -> None:
    harness = harness_with_attacker()
    for round_number in range(20):
        for number in range(100):
            start = (round_number * 100 + number) * 50
            harness.receive_control(
                ATTACKER, ihave=[IHave(TOPIC, [(start + item).to_bytes(20, "big") for item in range(50)])]
            )
        harness.sent_to(ATTACKER)
        harness.heartbeats()
        assert len(harness.router.lazy_gossip.promises) <= 10 * 7
    assert harness.scorer.score(ATTACKER) < -40.0
    assert not harness.receive_message(ATTACKER, b"anything")
    assert forwards_blocks(harness)


@pytest.mark.fault("F47")
def test_replays_within_and_beyond_the_seen_time() -> None:
    harness = harness_with_attacker()
    signers = UnsafeBlockSigners()
    signers.update(SIGNER.address, 0.0)
    validator = BlockValidator(chain_config(), signers)
    payload = block()
    content = signed(payload)

    def receive_after(after: float) -> list[ValidationFailure | None]:
        harness.now = start + after
        result = harness.receive_message(ATTACKER, content)
        validations = [validator.validate(4, item.content, payload.timestamp + after, harness.now) for item in result]
        for item, validation in zip(result, validations, strict=True):
            harness.router.report_validation_result(item.id, validation.result, harness.now)
        return [validation.failure for validation in validations]

    start = harness.now
    assert receive_after(0.0) == [None]
    assert [receive_after(after) for after in (0.1, 1.0, 30.0, 64.9)] == [[]] * 4
    assert receive_after(65.1) == [ValidationFailure.TOO_OLD]
    lenient = BlockValidator(chain_config(), signers, max_age=1000.0)
    for after, expected in ((131.0, None), (197.0, ValidationFailure.SEEN), (263.0, ValidationFailure.SEEN)):
        harness.now = start + after
        (incoming,) = harness.receive_message(ATTACKER, content)
        assert lenient.validate(4, incoming.content, payload.timestamp + after, harness.now).failure is expected
        harness.router.report_validation_result(incoming.id, ValidationResult.IGNORE, harness.now)


def floods() -> dict[str, Callable[[int], Rpc]]:
    """Floods of RPCs, by number."""

    def message(data: bytes) -> Rpc:
        return Rpc(messages=[PubsubMessage(TOPIC, data)])

    def ids(number: int) -> list[bytes]:
        return [number.to_bytes(8, "big") + bytes([item]) * 56 for item in range(20)]

    return {
        "subscriptions": lambda n: Rpc([Subscription(f"/t/{n}/{item}", True) for item in range(10)]),
        "malformed_rpcs": lambda n: message(compressed(n.to_bytes(8, "big") * 200)),
        "bombs": lambda n: message(compressed(n.to_bytes(8, "big") + bytes(MAX_BYTES // 8))),
        "lengths": lambda n: message(varint.encode(MAX_BYTES) + n.to_bytes(8, "big")),
        "ids": lambda n: Rpc(control=ControlMessage([IHave(TOPIC, ids(n))], ids(n), idontwant=ids(n))),
        "grafts": lambda n: Rpc(control=ControlMessage(graft=[TOPIC, f"/t/{n}"], prune=[Prune(f"/t/{n}", n)])),
    }


@pytest.mark.parametrize("flood", list(floods()))
def test_memory_stays_bounded(flood: str) -> None:
    harness, rpc_at = harness_with_attacker(), floods()[flood]

    def attack(numbers: range) -> None:
        for number in numbers:
            result = harness.router.receive_rpc(ATTACKER, encode_rpc(rpc_at(number)), harness.now)
            for incoming in [] if isinstance(result, MalformedRpc) else result:
                harness.router.report_validation_result(incoming.id, ValidationResult.REJECT, harness.now)
            if number % 25 == 0:
                harness.heartbeats()
                for peer in harness.router.peers.states:
                    while harness.router.next_frame(peer) is not None:
                        pass

    tracemalloc.start()
    try:
        attack(range(100))
        before = tracemalloc.get_traced_memory()[0]
        attack(range(100, 300))
        growth = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert growth < 200_000
    assert forwards_blocks(harness)
